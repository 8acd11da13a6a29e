// Binds the vendor's stand-alone occupancy calculator (cuda_occupancy.h, shipped with the CUDA runtime wheel).
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <cuda_occupancy.h>

// limits: shared per SM, per block, opt-in, reserved; threads per SM; registers per SM, per block.
__attribute__((visibility("default"))) int vendor_blocks(
    int major, int minor, const int *limits, int threads, int registers, int shared_bytes)
{
    struct cudaOccDeviceProp device;
    memset(&device, 0, sizeof device);
    device.computeMajor = major;
    device.computeMinor = minor;
    device.maxThreadsPerBlock = 1024;
    device.warpSize = 32;
    device.sharedMemPerMultiprocessor = limits[0];
    device.sharedMemPerBlock = limits[1];
    device.sharedMemPerBlockOptin = limits[2];
    device.reservedSharedMemPerBlock = limits[3];
    device.maxThreadsPerMultiprocessor = limits[4];
    device.regsPerMultiprocessor = limits[5];
    device.regsPerBlock = limits[6];
    device.numSms = 1;

    struct cudaOccFuncAttributes kernel;
    memset(&kernel, 0, sizeof kernel);
    kernel.maxThreadsPerBlock = INT_MAX;
    kernel.numRegs = registers;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = (size_t)shared_bytes;
    kernel.numBlockBarriers = 1;

    struct cudaOccDeviceState state;
    memset(&state, 0, sizeof state);
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;

    cudaOccResult result;
    cudaOccError status = cudaOccMaxActiveBlocksPerMultiprocessor(
        &result, &device, &kernel, &state, threads, (size_t)shared_bytes);
    return status == CUDA_OCC_SUCCESS ? result.activeBlocksPerMultiprocessor : -(int)status;
}
