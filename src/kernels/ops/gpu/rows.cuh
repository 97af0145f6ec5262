// Kernels on the rows of contiguous matrices, in f32 inside. T is the type of the numbers in memory.
//
// Where a warp takes a row, a block is (WARP, rows of the block), and the last block may have rows to spare.

#define ROW_OF_A_WARP(rows)                                     \
    size_t row = (size_t)blockIdx.x * blockDim.y + threadIdx.y; \
    unsigned lane = threadIdx.x;                                \
    if (row >= rows) return;

// Probabilities of scores times `scale`, which is positive, in the first `width` of `stride` columns; 0 in the others. A
// warp takes a row.
extern "C" __global__ void NAME(softmax)(
    const T *x, T *y, unsigned rows, unsigned width, unsigned stride, float scale) {
    ROW_OF_A_WARP(rows)
    x += row * stride;
    y += row * stride;
    float top = -INFINITY;
    for (unsigned i = lane; i < width; i += WARP) top = fmaxf(top, read(x[i]));
    top = largest(top);
    float sum = 0;
    for (unsigned i = lane; i < width; i += WARP) sum += expf((read(x[i]) - top) * scale);
    float inverse = 1 / total(sum);
    for (unsigned i = lane; i < stride; i += WARP)
        write(y + i, i < width ? expf((read(x[i]) - top) * scale) * inverse : 0);
}

// Gradient of the scores, from the probabilities `p` and the gradient `g` of those. A warp takes a row.
extern "C" __global__ void NAME(softmax_slope)(
    const T *p, const T *g, T *y, unsigned rows, unsigned width, float scale) {
    ROW_OF_A_WARP(rows)
    p += row * width;
    g += row * width;
    float mean = sum(p, g, p, width, lane, [](float p, float g, float) { return p * g; });
    map(p, g, p, y + row * width, width, lane, WARP, [=](float p, float g, float) { return (g - mean) * p * scale; });
}

// Rows of mean 0 and variance 1, times a weight and plus a bias for each column. A warp takes a row.
extern "C" __global__ void NAME(norm)(
    const T *x, const float *weight, const float *bias, T *y, unsigned rows, unsigned width, float eps) {
    ROW_OF_A_WARP(rows)
    x += row * width;
    Moments of = moments(x, width, eps, lane);
    map(x, weight, bias, y + row * width, width, lane, WARP,
        [=](float x, float weight, float bias) { return (x - of.mean) * of.rstd * weight + bias; });
}

// Gradient of the rows that were normalized, from the gradient `g` of the result. Of every `tokens` rows the first
// `asking` also get the next row of `more`. A warp takes a row.
extern "C" __global__ void NAME(norm_slope)(
    const T *x, const float *weight, const T *g, const T *more, T *y,
    unsigned rows, unsigned width, unsigned tokens, unsigned asking, float eps) {
    ROW_OF_A_WARP(rows)
    bool asks = row % tokens < asking;
    more += asks ? (row / tokens * asking + row % tokens) * width : 0;
    x += row * width;
    g += row * width;
    Moments of = moments(x, width, eps, lane);
    auto u = [](float, float weight, float g) { return g * weight; };
    auto uz = [=](float x, float weight, float g) { return g * weight * ((x - of.mean) * of.rstd); };
    float mean_u = sum(x, weight, g, width, lane, u) / width;
    float mean_uz = sum(x, weight, g, width, lane, uz) / width;
    map(x, weight, g, more, y + row * width, width, lane, WARP, [=](float x, float weight, float g, float more) {
        float slope = (g * weight - mean_u - (x - of.mean) * of.rstd * mean_uz) * of.rstd;
        return asks ? slope + more : slope;
    });
}

// A bias added to every row; each bias holds for `rows_each` rows that follow one another. A block takes a row.
extern "C" __global__ void NAME(add_bias)(const T *x, const T *bias, T *y, unsigned width, unsigned rows_each) {
    size_t row = blockIdx.x;
    x += row * width;
    map(x, bias + row / rows_each * width, x, y + row * width, width, threadIdx.x, blockDim.x,
        [](float x, float bias, float) { return x + bias; });
}

// A bias and the rows of `more` added to every row. A block takes a row.
extern "C" __global__ void NAME(add_bias_and)(const T *x, const T *bias, const T *more, T *y, unsigned width) {
    size_t row = blockIdx.x;
    x += row * width;
    map(x, bias, more + row * width, y + row * width, width, threadIdx.x, blockDim.x,
        [](float x, float bias, float more) { return x + bias + more; });
}

// The exact GELU. A block takes a row.
extern "C" __global__ void NAME(gelu)(const T *x, T *y, unsigned width) {
    size_t row = blockIdx.x;
    x += row * width;
    map(x, x, x, y + row * width, width, threadIdx.x, blockDim.x, [](float x, float, float) { return x * normal(x); });
}

// Gradient of the input `x` of the exact GELU, from the gradient `g` of the result. A block takes a row.
extern "C" __global__ void NAME(gelu_slope)(const T *x, const T *g, T *y, unsigned width) {
    size_t row = blockIdx.x;
    x += row * width;
    map(x, g + row * width, x, y + row * width, width, threadIdx.x, blockDim.x, [](float x, float g, float) {
        return g * (normal(x) + x * (0.39894228040143268f * expf(-0.5f * x * x)));
    });
}

// `x` with `more` (rows, taken) added to its columns from `first` on. A block takes a row.
extern "C" __global__ void NAME(add_columns)(
    const T *x, const T *more, T *y, unsigned width, unsigned first, unsigned taken) {
    size_t row = blockIdx.x;
    for (unsigned i = threadIdx.x; i < width; i += blockDim.x) {
        bool in = i >= first && i - first < taken;
        write(y + row * width + i, read(x[row * width + i]) + (in ? read(more[row * taken + i - first]) : 0));
    }
}

#undef ROW_OF_A_WARP
