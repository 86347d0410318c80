// Data sets of common file formats. Files may be compressed with gzip. Errors are Exceptions that name the file, the
// offset or line, the value and the rule: kNotFound for a missing file, kInvalidArgument for its content.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "train/data/dataset.h"

namespace volador::train {

// Pixels become (value / 255 - mean) / std; one number for each channel, or one for all.
struct Normalise {
  std::vector<double> mean = {};  // Empty: 0.
  std::vector<double> std = {};   // Above 0; empty: 1.
};

// Reads one IDX file of any of its types: uint8, int8, int16, int32, float or double, with the file's dimensions.
torch::Tensor idx(const std::filesystem::path& file);

// MNIST and data sets of its format (Fashion-MNIST, KMNIST) with any number of images: train-images-idx3-ubyte,
// train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in `folder`, its raw or MNIST/raw.
// Batch: float [n, 1, height, width], int64 [n]. Kept in memory as bytes.
DatasetPtr mnist(const std::filesystem::path& folder, bool train, const Normalise& normalise = {});

// Binary version of CIFAR-10: data_batch_1.bin to data_batch_5.bin or test_batch.bin in `folder` or its
// cifar-10-batches-bin. Batch: float [n, 3, 32, 32], int64 [n]. Kept in memory as bytes.
DatasetPtr cifar10(const std::filesystem::path& folder, bool train, const Normalise& normalise = {});

enum class Cifar100Labels : uint8_t { kFine, kCoarse };  // 100 classes or their 20 groups.

// Binary version of CIFAR-100: train.bin or test.bin in `folder` or its cifar-100-binary.
DatasetPtr cifar100(const std::filesystem::path& folder, bool train, const Normalise& normalise = {},
                    Cifar100Labels labels = Cifar100Labels::kFine);

enum class CsvTarget : uint8_t {
  kClass,  // int64 [n].
  kReal,   // float [n, 1].
  kNone,   // No target: all columns are features.
};

struct CsvOptions {
  std::variant<int64_t, std::string> target = int64_t{-1};  // Column by number (-1 is the last) or by name.
  CsvTarget target_kind = CsvTarget::kClass;                // What the target is.
  bool header = true;                                       // The first row has the names of the columns.
  char separator = ',';                                     // One character; '\t' for tab-separated files.
  std::vector<std::string> ignore = {};                     // Names of columns that are no features, such as ids.
  std::vector<std::string> classes = {};                    // Names of the classes in order; empty: from the file.
  std::optional<float> missing = {};  // Value of empty, NA, NaN, null and ? cells; default: they are an error.
};

// Table of numbers: float [n, columns without target and ignored ones], then the target. Kept in memory.
// Classes: with `classes` given, cells are their names. Otherwise whole numbers from 0 up are taken as they are, and
// other texts are numbered in the sorted order of the file's distinct values: Dataset::classes() has the names; give
// them as `classes` when a second file is read.
DatasetPtr csv(const std::filesystem::path& file, const CsvOptions& options = {});

struct ImageFolderOptions {
  int64_t height = 224;      // Size of the result; images are stretched to it.
  int64_t width = 224;       // As height.
  int channels = 3;          // 3: red, green, blue; 1: grey.
  Normalise normalise = {};  // Applied after the scaling to 0 … 1.
};

// One class a sub-folder, numbered in the sorted order of their names; its files .jpg, .jpeg, .png and .bmp, also in
// deeper folders, sorted by path; names that begin with a dot are skipped. The files are listed once and decoded when
// read, in the thread that reads. Batch: float [n, channels, height, width], int64 [n].
DatasetPtr image_folder(const std::filesystem::path& folder, const ImageFolderOptions& options = {});

// Decodes one JPEG, PNG or BMP file: uint8 [channels, height, width].
torch::Tensor read_image(const std::filesystem::path& file, int channels = 3);

// Resizes float or uint8 [channels, h, w] to float [channels, height, width]; bilinear, averaging over the covered area
// where it shrinks (PyTorch's interpolate with antialias). The range of values stays.
torch::Tensor resize_image(const torch::Tensor& image, int64_t height, int64_t width);

}  // namespace volador::train
