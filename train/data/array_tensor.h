// Tensors over arrays of the object store: the ranks of a node read one copy of a data set.
//
//   const volador::Array<float> pixels = ref.get();                       // volador::Ref<volador::Array<float>>
//   auto dataset = train::tensor_dataset({train::tensor_of(pixels, {-1, 784}), train::tensor_of(labels)});
#pragma once

#include <torch/types.h>

#include <memory>

#include "runtime/store/array.h"
#include "train/data/dataset.h"

namespace volador::train {

// Shares the array's memory, which may be mapped read-only: do not write to the tensor. One of `sizes` may be -1.
// kInvalidArgument: sizes and the array's size differ.
template <ArrayElement T>
torch::Tensor tensor_of(const Array<T>& array, torch::IntArrayRef sizes = {-1}) {
  return tensor_of(array.data(), static_cast<int64_t>(array.size()), c10::CppTypeToScalarType<T>::value, sizes,
                   std::make_shared<const Array<T>>(array));
}

}  // namespace volador::train
