// Numbers in memory, f32 or bf16, as floats, four at a time where they are aligned; and sums over the lanes of a warp in
// a fixed order.

#pragma once

#include <cuda_bf16.h>

#define WARP 32

__device__ inline float read(float x) { return x; }
__device__ inline float read(__nv_bfloat16 x) { return __bfloat162float(x); }

__device__ inline void write(float *at, float x) { *at = x; }
__device__ inline void write(__nv_bfloat16 *at, float x) { *at = __float2bfloat16(x); }

// Every lane gets the sum, with the same bits.
__device__ inline float total(float x) {
    for (int other = WARP / 2; other > 0; other /= 2) x += __shfl_xor_sync(0xffffffff, x, other);
    return x;
}

__device__ inline float largest(float x) {
    for (int other = WARP / 2; other > 0; other /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, other));
    return x;
}

template <typename T>
struct alignas(4 * sizeof(T)) Four {
    T of[4];
};

template <typename T>
__device__ const Four<T> *fours(const T *at) {
    return reinterpret_cast<const Four<T> *>(at);
}

// Whether rows of `width` numbers that begin here can be read in fours.
template <typename... T>
__device__ bool in_fours(unsigned width, const T *...rows) {
    return width % 4 == 0 && ((reinterpret_cast<size_t>(rows) % sizeof(Four<T>) == 0) && ...);
}

// y[i] = f(a[i], b[i], c[i], d[i]), shared among threads `first` of `step`.
template <typename A, typename B, typename C, typename D, typename Y, typename F>
__device__ void map(
    const A *a, const B *b, const C *c, const D *d, Y *y, unsigned width, unsigned first, unsigned step, F f) {
    if (in_fours(width, a, b, c, d, y)) {
        for (unsigned i = first; i < width / 4; i += step) {
            Four<A> p = fours(a)[i];
            Four<B> q = fours(b)[i];
            Four<C> r = fours(c)[i];
            Four<D> s = fours(d)[i];
            Four<Y> out;
            for (int j = 0; j < 4; j++)
                write(&out.of[j], f(read(p.of[j]), read(q.of[j]), read(r.of[j]), read(s.of[j])));
            reinterpret_cast<Four<Y> *>(y)[i] = out;
        }
    } else {
        for (unsigned i = first; i < width; i += step)
            write(y + i, f(read(a[i]), read(b[i]), read(c[i]), read(d[i])));
    }
}

// y[i] = f(a[i], b[i], c[i]).
template <typename A, typename B, typename C, typename Y, typename F>
__device__ void map(const A *a, const B *b, const C *c, Y *y, unsigned width, unsigned first, unsigned step, F f) {
    map(a, b, c, a, y, width, first, step, [=](float a, float b, float c, float) { return f(a, b, c); });
}

// The sum of f(a[i], b[i], c[i]) over a row of a warp.
template <typename A, typename B, typename C, typename F>
__device__ float sum(const A *a, const B *b, const C *c, unsigned width, unsigned lane, F f) {
    float sum = 0;
    if (in_fours(width, a, b, c)) {
        for (unsigned i = lane; i < width / 4; i += WARP) {
            Four<A> p = fours(a)[i];
            Four<B> q = fours(b)[i];
            Four<C> r = fours(c)[i];
            for (int j = 0; j < 4; j++) sum += f(read(p.of[j]), read(q.of[j]), read(r.of[j]));
        }
    } else {
        for (unsigned i = lane; i < width; i += WARP) sum += f(read(a[i]), read(b[i]), read(c[i]));
    }
    return total(sum);
}

// Mean, and 1 over the deviation, of a row of a warp.
struct Moments {
    float mean, rstd;
};

template <typename T>
__device__ Moments moments(const T *x, unsigned width, float eps, unsigned lane) {
    float mean = sum(x, x, x, width, lane, [](float x, float, float) { return x; }) / width;
    auto square = [=](float x, float, float) { return (x - mean) * (x - mean); };
    return {mean, 1 / sqrtf(sum(x, x, x, width, lane, square) / width + eps)};
}

__device__ inline float normal(float x) { return 0.5f * (1 + erff(x * 0.70710678118654752f)); }
