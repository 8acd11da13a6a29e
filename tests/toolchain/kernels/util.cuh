// Host helpers and one device helper, as projects keep them in one header.
#pragma once
#include <iostream>
#include <vector>
#define CHECK(call)                                                  \
    do {                                                             \
        cudaError_t status = (call);                                 \
        if (status != cudaSuccess) {                                 \
            std::cerr << cudaGetErrorString(status) << std::endl;    \
            exit(1);                                                 \
        }                                                            \
    } while (0)
#define INLINE_DEVICE __device__ __forceinline__

template <typename T>
T* device_array(size_t count)
{
    T* data;
    CHECK(cudaMalloc(&data, count * sizeof(T)));
    return data;
}

struct Stopwatch {
    cudaEvent_t begin, end;
    std::vector<float> laps;
    void start() { cudaEventRecord(begin); }
};

INLINE_DEVICE float twice(float x) { return 2.f * x; }
