// The kernels of heads.cuh for numbers of type T, four at once where rows and heads are aligned.

#define FOURS(of) reinterpret_cast<Four<T> *>(of)

// Heads of the `taken` first tokens of every sample, from the columns `first` to `first + width` of rows of `stride`
// columns, behind the `ahead` tokens of the sample's member in `prefix` (members, ahead, width), and in front of as many
// zeros as make `all` tokens.
extern "C" __global__ void NAME(split)(
    const T *x, const T *prefix, const unsigned *members, T *y,
    unsigned tokens, unsigned taken, unsigned stride, unsigned first, unsigned width, unsigned channels,
    unsigned ahead, unsigned all) {
    if (in_fours(stride | first | width | channels, x, prefix, y, y))
        split(fours(x), fours(prefix), members, FOURS(y), tokens, taken, stride / 4, first / 4, width / 4, channels / 4,
              ahead, all);
    else split(x, prefix, members, y, tokens, taken, stride, first, width, channels, ahead, all);
}

// Tokens from heads `x` (b, h, tokens, c).
extern "C" __global__ void NAME(merge)(const T *x, T *y, unsigned tokens, unsigned width, unsigned channels) {
    if (in_fours(width | channels, x, x, y, y)) merge(fours(x), FOURS(y), tokens, width / 4, channels / 4);
    else merge(x, y, tokens, width, channels);
}

// Gradient of the packed columns [queries | keys | values] of every token, from those of the heads: `q` (b, h, asking,
// c), `k` and `v` (b, h, all, c) with `ahead` tokens of a prefix. Tokens behind the asking ones have a query gradient
// of 0.
extern "C" __global__ void NAME(pack)(
    const T *q, const T *k, const T *v, T *y,
    unsigned tokens, unsigned asking, unsigned width, unsigned channels, unsigned ahead, unsigned all) {
    if (in_fours(width | channels, q, k, v, y))
        pack(fours(q), fours(k), fours(v), FOURS(y), tokens, asking, width / 4, channels / 4, ahead, all);
    else pack(q, k, v, y, tokens, asking, width, channels, ahead, all);
}

// Gradient of the prefix of every member, from that of the heads `x` (b, h, all, c): the sum over its samples, which are
// `starts[member]` to `starts[member + 1]`, in their order. A block takes a token of a member.
extern "C" __global__ void NAME(prefix_slope)(
    const T *x, const unsigned *starts, float *y, unsigned width, unsigned channels, unsigned ahead, unsigned all) {
    unsigned member = blockIdx.x / ahead, token = blockIdx.x % ahead;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        float sum = 0;
        for (size_t sample = starts[member]; sample < starts[member + 1]; sample++) {
            size_t head = sample * (width / channels) + i / channels;
            sum += read(x[(head * all + token) * channels + i % channels]);
        }
        y[(size_t)blockIdx.x * width + i] = sum;
    }
}

#undef FOURS
