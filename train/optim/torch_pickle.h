// Reader of the pickle in a torch.save file: dictionaries, lists, tuples, numbers, strings and tensors. Unlike the
// reader of LibTorch it accepts ordered dictionaries, as module.state_dict() returns them. It calls nothing that the
// file names and checks all sizes, so a hostile file gives an error.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <string_view>

namespace volador::train {

// Returns the storage with this key, at least `bytes` long.
using StorageReader = std::function<c10::Storage(const std::string& key, size_t bytes)>;

// Dictionaries have any key and value type; keys are strings, numbers or bools. Ordered dictionaries become ordinary
// ones in their order, and parameters become tensors.
// kInvalidArgument (Exception): truncated or corrupt, or an object of another class; the message names it.
[[nodiscard]] c10::IValue read_pickle(std::string_view pickle, const StorageReader& storage);

}  // namespace volador::train
