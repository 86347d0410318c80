// Programs of torch.export as TorchScript, so that they can be trained. LibTorch itself runs them only compiled by
// AOTInductor and without gradients.
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>

namespace volador::train {

// Whether a file is an archive of torch.export.save (.pt2).
bool is_exported_program(const std::filesystem::path& file);

// Translates the graph of a program to the forward() of a script with the program's parameters and buffers under their
// names. Arguments `train` and `training` of operations (dropout, batch norm, recurrent layers) follow the script's mode
// instead of the mode of the export; a dropout rate within attention stays as exported. Sizes are those of the export
// unless it had dynamic_shapes. Buffers that are not persistent, and constants, become buffers as well.
// kInvalidArgument: damaged, or it has a construct without counterpart, such as control flow; the message names it.
torch::jit::Module script_of_exported_program(const std::filesystem::path& file);

}  // namespace volador::train
