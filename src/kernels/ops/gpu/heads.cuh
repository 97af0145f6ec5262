// Heads of attention: tokens with all heads side by side, (b, t, h c), to heads with all tokens, (b, h, t, c), and back.
// A block takes a token of a sample. V is what is copied at once: a number or four of them.

#pragma once

#include "numbers.cuh"

template <typename V>
__device__ void split(
    const V *x, const V *prefix, const unsigned *members, V *y,
    unsigned tokens, unsigned taken, unsigned stride, unsigned first, unsigned width, unsigned channels,
    unsigned ahead, unsigned all) {
    size_t sample = blockIdx.x / all;
    unsigned token = blockIdx.x % all;
    const V *from = token < ahead           ? prefix + ((size_t)members[sample] * ahead + token) * width
                    : token < ahead + taken ? x + (sample * tokens + (token - ahead)) * stride + first
                                            : nullptr;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        size_t head = sample * (width / channels) + i / channels;
        y[(head * all + token) * channels + i % channels] = from ? from[i] : V{};
    }
}

template <typename V>
__device__ void merge(const V *x, V *y, unsigned tokens, unsigned width, unsigned channels) {
    size_t sample = blockIdx.x / tokens;
    unsigned token = blockIdx.x % tokens;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        size_t head = sample * (width / channels) + i / channels;
        y[(size_t)blockIdx.x * width + i] = x[(head * tokens + token) * channels + i % channels];
    }
}

template <typename V>
__device__ void pack(
    const V *q, const V *k, const V *v, V *y,
    unsigned tokens, unsigned asking, unsigned width, unsigned channels, unsigned ahead, unsigned all) {
    size_t sample = blockIdx.x / tokens;
    unsigned token = blockIdx.x % tokens;
    y += (size_t)blockIdx.x * 3 * width;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        size_t head = sample * (width / channels) + i / channels;
        size_t own = (head * all + ahead + token) * channels + i % channels;
        y[i] = token < asking ? q[(head * asking + token) * channels + i % channels] : V{};
        y[width + i] = k[own];
        y[2 * width + i] = v[own];
    }
}
