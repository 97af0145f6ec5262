// Every kernel in both types: `softmax_f32`, `softmax_bf16` and so on.

#include "heads.cuh"
#include "numbers.cuh"

#define T float
#define NAME(kernel) kernel##_f32
#include "heads_of.cuh"
#include "rows.cuh"
#undef T
#undef NAME

#define T __nv_bfloat16
#define NAME(kernel) kernel##_bf16
#include "heads_of.cuh"
#include "rows.cuh"
