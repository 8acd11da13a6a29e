// Arithmetic that LLVM has no single instruction for. No libm: results are the same on every host.
#ifndef TILEPIPE_ARITH_H
#define TILEPIPE_ARITH_H
#include "types.h"

INLINE float as_float(uint32_t u) { float f; __builtin_memcpy(&f, &u, 4); return f; }
INLINE uint32_t as_bits(float f) { uint32_t u; __builtin_memcpy(&u, &f, 4); return u; }
INLINE double as_double(uint64_t u) { double d; __builtin_memcpy(&d, &u, 8); return d; }
INLINE uint64_t as_bits64(double d) { uint64_t u; __builtin_memcpy(&u, &d, 8); return u; }
INLINE float half_to_float(uint16_t h) { _Float16 x; __builtin_memcpy(&x, &h, 2); return (float)x; }
INLINE uint16_t float_to_half(float f) { _Float16 x = (_Float16)f; uint16_t h; __builtin_memcpy(&h, &x, 2); return h; }
INLINE float bf16_to_float(uint16_t h) { return as_float((uint32_t)h << 16); }

INLINE uint16_t float_to_bf16(float f) {
  uint32_t u = as_bits(f);
  if (f != f) return 0x7fff;
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// The double nearest to x + error, rounded to odd: a second rounding to a narrower type is then exact.
INLINE double to_odd(double x, double error) {
  uint64_t u = as_bits64(x);
  if (error == 0 || error != error || (u & 1)) return x;
  return as_double((error > 0) == (x > 0) ? u + 1 : u - 1);
}

// x + y rounded to odd (two-sum gives the exact error).
INLINE double add_odd(double x, double y) {
  double s = x + y, v = s - x;
  return s - s != 0 ? s : to_odd(s, (x - (s - v)) + (y - v));
}

// A double to float rounded to odd, for a further rounding to 16 bits.
INLINE float narrow_odd(double d) {
  float f = (float)d;
  double error = d - (double)f;
  uint32_t u = as_bits(f);
  if (f - f != 0 || error == 0 || (u & 1)) return f;
  if (f == 0) return d > 0 ? as_float(1) : as_float(0x80000001u);
  return as_float((error > 0) == (f > 0) ? u + 1 : u - 1);
}

// Products of 16-bit floats are exact in double, so these round once.
INLINE uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c) {
  double p = (double)half_to_float(a) * half_to_float(b);
  return float_to_half(narrow_odd(add_odd(p, half_to_float(c))));
}
INLINE uint16_t fma_bf16(uint16_t a, uint16_t b, uint16_t c) {
  double p = (double)bf16_to_float(a) * bf16_to_float(b);
  return float_to_bf16(narrow_odd(add_odd(p, bf16_to_float(c))));
}
uint32_t tp_fma_f16(uint32_t a, uint32_t b, uint32_t c) { return fma_half(a, b, c); }
uint32_t tp_fma_bf16(uint32_t a, uint32_t b, uint32_t c) { return fma_bf16(a, b, c); }
uint32_t tp_fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
  return fma_half(a, b, c) | (uint32_t)fma_half(a >> 16, b >> 16, c >> 16) << 16;
}
uint32_t tp_fma_bf16x2(uint32_t a, uint32_t b, uint32_t c) {
  return fma_bf16(a, b, c) | (uint32_t)fma_bf16(a >> 16, b >> 16, c >> 16) << 16;
}
uint32_t tp_f64_to_f16(double d) { return float_to_half(narrow_odd(d)); }
uint32_t tp_f32_to_bf16(float f) { return float_to_bf16(f); }
uint32_t tp_f64_to_bf16(double d) { return float_to_bf16(narrow_odd(d)); }

// Directed rounding of the exact value x + error to float; mode 1 toward zero, 2 down, 3 up.
INLINE float round_directed(double x, double error, uint32_t mode) {
  float f = (float)x;
  if (f != f || x - x != 0) return f;
  double over = (double)f - x;  // the float minus the exact value, up to the error's share
  int above = over > error || (f - f != 0 && f > 0), below = over < error || (f - f != 0 && f < 0);
  int down = mode == 2 || (mode == 1 && x > 0), up = mode == 3 || (mode == 1 && x < 0);
  uint32_t u = as_bits(f);
  if (above && down) return f == 0 ? as_float(0x80000001u) : as_float(f > 0 ? u - 1 : u + 1);
  if (below && up) return f == 0 ? as_float(1) : as_float(f > 0 ? u + 1 : u - 1);
  return f;
}
float tp_round_f64(double d, uint32_t mode) { return round_directed(d, 0, mode); }
float tp_fma_f32(float a, float b, float c, uint32_t mode) {
  double p = (double)a * b, s = p + c, v = s - p;
  return round_directed(s, (p - (s - v)) + ((double)c - v), mode);
}

// Truncates the bits a narrower float cannot hold: f32 to f16 or bf16 toward zero.
uint32_t tp_f32_to_f16_rz(float f) {
  uint16_t h = float_to_half(f);
  float back = half_to_float(h), size = f < 0 ? -f : f, got = back < 0 ? -back : back;
  return got > size && size - size == 0 ? h - 1u : h;
}

// 2^x: split off the integer, then a Taylor series in double (|r| <= 1/2, error below 1e-12).
INLINE double exp2_double(double x) {
  if (x != x) return x;
  if (x >= 1025) return __builtin_inf();
  if (x <= -1080) return 0;
  int n = (int)(x < 0 ? x - 0.5 : x + 0.5);
  double r = (x - n) * 0.69314718055994530942, sum = 1, term = 1;
  for (int i = 1; i < 13; i++) sum += term *= r / i;
  int half = n / 2;
  return sum * as_double((uint64_t)(1023 + half) << 52) * as_double((uint64_t)(1023 + n - half) << 52);
}

// log2(x): exponent plus a series of atanh in double.
INLINE double log2_double(double x) {
  if (x != x || x < 0) return __builtin_nan("");
  if (x == 0) return -__builtin_inf();
  if (x - x != 0) return x;
  uint64_t u = as_bits64(x);
  int e = (int)(u >> 52) - 1023;
  double m = as_double((u & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.4142135623730951) m *= 0.5, e++;
  double s = (m - 1) / (m + 1), s2 = s * s, sum = 0;
  for (int i = 25; i > 0; i -= 2) sum = sum * s2 + 1.0 / i;
  return e + 2 * s * sum * 1.4426950408889634074;
}

// sin and cos of a float by reduction modulo pi/2 in double (good to |x| < 2^30), then Taylor series.
INLINE double sine_quadrant(double x, int shift) {
  if (x - x != 0) return __builtin_nan("");
  double q = x * 0.63661977236758134308;
  int64_t n = (int64_t)(q < 0 ? q - 0.5 : q + 0.5);
  double r = (x - n * 1.5707963267948966) - n * 6.123233995736766e-17, r2 = r * r;
  n = (n + shift) & 3;
  double sum = 0;
  if (n & 1)
    for (int i = 18; i > 0; i -= 2) sum = (1 - sum) * r2 / (i * (i - 1));
  else
    for (int i = 19; i > 1; i -= 2) sum = (1 - sum) * r2 / (i * (i - 1));
  double y = n & 1 ? 1 - sum : r * (1 - sum);
  return n & 2 ? -y : y;
}

float tp_ex2_f32(float x) { return (float)exp2_double(x); }
float tp_lg2_f32(float x) { return (float)log2_double(x); }
float tp_sin_f32(float x) { return (float)sine_quadrant(x, 0); }
float tp_cos_f32(float x) { return (float)sine_quadrant(x, 1); }
float tp_tanh_f32(float x) {
  double e = exp2_double(2.8853900817779268 * (double)x);
  return x > 20 ? 1.0f : x < -20 ? -1.0f : (float)((e - 1) / (e + 1));
}

// prmt's default mode: each selector nibble picks a byte of b:a, or its sign spread over eight bits.
uint32_t tp_prmt(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t d = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t s = selector >> 4 * i & 15, v = (uint32_t)(bytes >> 8 * (s & 7)) & 255;
    if (s & 8) v = v & 128 ? 255 : 0;
    d |= v << 8 * i;
  }
  return d;
}

// Bit field extract and insert, after the PTX definition (position and length are bytes).
uint64_t tp_bfe(uint64_t a, uint32_t position, uint32_t length, uint32_t bits, uint32_t is_signed) {
  position &= 255;
  length &= 255;
  uint32_t top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
  uint64_t sign = !is_signed || length == 0 ? 0 : a >> top & 1, d = 0;
  for (uint32_t i = 0; i < bits; i++) {
    uint64_t bit = i < length && position + i < bits ? a >> (position + i) & 1 : sign;
    d |= bit << i;
  }
  return d;
}
uint64_t tp_bfi(uint64_t a, uint64_t b, uint32_t position, uint32_t length, uint32_t bits) {
  position &= 255;
  length &= 255;
  for (uint32_t i = 0; i < length && position + i < bits; i++) {
    b &= ~(1ull << (position + i));
    b |= (a >> i & 1) << (position + i);
  }
  return b;
}

#endif
