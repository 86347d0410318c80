#include "train/data/readers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "runtime/result.h"
#include "runtime/text.h"
#include "train/data/csv_rows.h"
#include "train/data/file_bytes.h"
#include "train/data/image_file.h"

namespace volador::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string message) {
  throw Exception(Error{ErrorCode::kInvalidArgument, std::move(message)});
}
[[noreturn]] void refuse_at(const fs::path& file, size_t offset, const std::string& text) {
  refuse(file.string() + ": offset " + std::to_string(offset) + ": " + text);
}

// Scaling of pixels as two tensors [1, channels, 1, 1].
class PixelScale {
 public:
  PixelScale(const Normalise& normalise, int64_t channels)
      : mean_(values(normalise.mean, channels, "mean")), std_(values(normalise.std, channels, "std")) {
    for (const double value : normalise.std)
      if (!(value > 0)) refuse("normalise.std: expected numbers above 0, got " + std::to_string(value));
  }

  // Changes `pixels`, float [n, channels, h, w] of 0 … 255.
  void apply(torch::Tensor& pixels) const {
    pixels.div_(255);
    if (mean_.defined()) pixels.sub_(mean_);
    if (std_.defined()) pixels.div_(std_);
  }

 private:
  static torch::Tensor values(const std::vector<double>& numbers, int64_t channels, const char* name) {
    if (numbers.empty()) return {};
    const auto count = static_cast<int64_t>(numbers.size());
    if (count != 1 && count != channels)
      refuse(std::string("normalise.") + name + ": expected 1 or " + std::to_string(channels) +
             " numbers, one a channel, got " + std::to_string(count));
    return torch::tensor(numbers, torch::kDouble).to(torch::kFloat).view({1, count, 1, 1});
  }

  torch::Tensor mean_;
  torch::Tensor std_;
};

// Pixels as bytes [n, c, h, w], converted when read.
class PixelDataset final : public Dataset {
 public:
  PixelDataset(torch::Tensor pixels, torch::Tensor labels, const Normalise& normalise, std::vector<std::string> classes)
      : scale_(normalise, pixels.size(1)),
        bytes_(tensor_dataset({std::move(pixels), std::move(labels)})),
        classes_(std::move(classes)) {}
  int64_t size() const override { return bytes_->size(); }
  Batch rows(std::span<const int64_t> rows) const override {
    Batch batch = bytes_->rows(rows);
    batch.tensors[0] = batch.tensors[0].to(torch::kFloat);
    scale_.apply(batch.tensors[0]);
    return batch;
  }
  std::vector<std::string> classes() const override { return classes_; }

 private:
  PixelScale scale_;
  DatasetPtr bytes_;
  std::vector<std::string> classes_;
};

uint32_t big_endian(const std::string& bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[offset + i]);
  return value;
}

struct IdxType {
  uint8_t code;
  torch::ScalarType type;
  size_t bytes;
};
constexpr std::array kIdxTypes{IdxType{0x08, torch::kByte, 1},  IdxType{0x09, torch::kChar, 1},
                               IdxType{0x0B, torch::kShort, 2}, IdxType{0x0C, torch::kInt, 4},
                               IdxType{0x0D, torch::kFloat, 4}, IdxType{0x0E, torch::kDouble, 8}};

// Returns a tensor of bytes with these sizes and type; `dimensions` 0: any.
torch::Tensor read_idx(const fs::path& file, std::optional<torch::ScalarType> type, size_t dimensions) {
  const std::string bytes = read_file(file);
  if (bytes.size() < 4) refuse_at(file, bytes.size(), "the file ends within the magic number of an IDX file");
  const uint32_t magic = big_endian(bytes, 0);
  const auto* known = std::find_if(kIdxTypes.begin(), kIdxTypes.end(),
                                   [&](const IdxType& entry) { return entry.code == (magic >> 8 & 0xFF); });
  if (magic >> 16 != 0 || known == kIdxTypes.end() || (magic & 0xFF) == 0)
    refuse_at(file, 0,
              "magic number " + std::to_string(magic) +
                  ": expected two zero bytes, a type 8, 9, 11, 12, 13 or 14 and the number of dimensions; is "
                  "this an IDX file?");
  const size_t count = magic & 0xFF;
  if (type && *type != known->type) refuse_at(file, 2, "type " + std::to_string(known->code) + ": expected 8, bytes");
  if (dimensions != 0 && count != dimensions)
    refuse_at(file, 3, std::to_string(count) + " dimensions: expected " + std::to_string(dimensions));
  const size_t header = 4 + 4 * count;
  if (bytes.size() < header)
    refuse_at(file, bytes.size(), "the file ends within its " + std::to_string(count) + " dimensions");
  std::vector<int64_t> sizes;
  int64_t elements = 1;
  bool fits = true;
  for (size_t i = 0; i < count; ++i) {
    sizes.push_back(big_endian(bytes, 4 + 4 * i));
    // An empty dimension counts as 1 here: the strides of the others must fit too.
    fits = fits && !__builtin_mul_overflow(elements, std::max<int64_t>(sizes.back(), 1), &elements);
  }
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) elements = 0;
  const size_t there = bytes.size() - header;
  if (!fits || static_cast<size_t>(elements) != there / known->bytes || there % known->bytes != 0) {
    std::string text = "sizes";
    for (const int64_t size : sizes) text += ' ' + std::to_string(size);
    text += fits ? " mean " + std::to_string(elements) + " elements of " + std::to_string(known->bytes) + " bytes"
                 : " are too many";
    refuse_at(file, header, text + ", the file has " + std::to_string(there) + " bytes of data; is it cut off?");
  }
  torch::Tensor tensor = torch::empty(sizes, known->type);
  auto* out = static_cast<char*>(tensor.data_ptr());
  if (there > 0) std::memcpy(out, bytes.data() + header, there);
  if constexpr (std::endian::native == std::endian::little) {
    for (size_t i = 0; known->bytes > 1 && i < there; i += known->bytes) std::reverse(out + i, out + i + known->bytes);
  }
  return tensor;
}

// Throws if the label at `offset` of the file is not below `classes`.
void check_label(const fs::path& file, size_t offset, uint8_t label, int classes) {
  if (label >= classes)
    refuse_at(file, offset, "label " + std::to_string(label) + ": expected 0 to " + std::to_string(classes - 1));
}

constexpr int64_t kCifarPixels = 3 * 32 * 32;

// `label`: which of the `labels` bytes before the pixels is the label.
DatasetPtr read_cifar(const std::vector<fs::path>& files, size_t labels, size_t label, int class_count,
                      const Normalise& normalise, std::vector<std::string> classes) {
  const size_t record = labels + kCifarPixels;
  std::vector<torch::Tensor> pixels;
  std::vector<int64_t> numbers;
  for (const fs::path& file : files) {
    const std::string bytes = read_file(file);
    if (bytes.empty() || bytes.size() % record != 0)
      refuse(file.string() + ": " + std::to_string(bytes.size()) + " bytes: expected a multiple of " +
             std::to_string(record) + ", " + std::to_string(labels) + (labels == 1 ? " label and " : " labels and ") +
             "3072 pixels a record; is it the binary version, and complete?");
    const auto count = static_cast<int64_t>(bytes.size() / record);
    torch::Tensor part = torch::empty({count, 3, 32, 32}, torch::kByte);
    auto* out = part.data_ptr<uint8_t>();
    for (size_t at = 0; at < bytes.size(); at += record, out += kCifarPixels) {
      const auto number = static_cast<uint8_t>(bytes[at + label]);
      check_label(file, at + label, number, class_count);
      numbers.push_back(number);
      std::memcpy(out, bytes.data() + at + labels, kCifarPixels);
    }
    pixels.push_back(std::move(part));
  }
  return std::make_shared<PixelDataset>(pixels.size() == 1 ? pixels[0] : torch::cat(pixels),
                                        torch::tensor(numbers, torch::kLong), normalise, std::move(classes));
}

// Lines of a file that some data sets bring along; empty if it is missing or has another number of lines.
std::vector<std::string> names_from(const std::vector<fs::path>& folders, const std::string& name, size_t count) {
  std::error_code ignored;
  for (const fs::path& folder : folders) {
    if (!fs::is_regular_file(folder / name, ignored)) continue;
    const std::string text = read_file(folder / name);
    CsvRows rows(text, '\t', name);
    std::vector<std::string> names;
    for (std::vector<std::string_view> cells; rows.next(cells);) names.emplace_back(cells[0]);
    return names.size() == count ? names : std::vector<std::string>{};
  }
  return {};
}

bool is_missing(std::string_view cell) {
  if (cell.empty() || cell == "?") return true;
  const std::string lower = lower_case(cell.substr(0, 5));
  return lower == "na" || lower == "n/a" || lower == "nan" || lower == "null" || lower == "none";
}

// Reads the table of one CSV file.
class CsvLoad {
 public:
  CsvLoad(const fs::path& file, const CsvOptions& options)
      : name_(file.string()), options_(options), text_(read_file(file)), rows_(text_, options.separator, name_) {}

  DatasetPtr run() {
    std::vector<std::string_view> cells;
    if (!rows_.next(cells)) refuse(name_ + ": the file has no rows");
    width_ = cells.size();
    bool more = true;
    if (options_.header) {
      columns_.assign(cells.begin(), cells.end());
      if (std::all_of(cells.begin(), cells.end(), [](std::string_view cell) { return number_of(cell).has_value(); }))
        fail("the header consists of numbers; set header = false if the file has none");
      more = rows_.next(cells);
    }
    find_columns();
    for (; more; more = rows_.next(cells)) add(cells);
    if (count_ == 0) refuse(name_ + ": the file has a header and no rows");
    return finish();
  }

 private:
  enum class Role : uint8_t { kFeature, kTarget, kIgnored };

  [[noreturn]] void fail(const std::string& text) const {
    refuse(name_ + ":" + std::to_string(rows_.line()) + ": " + text);
  }

  std::string column_name(size_t column) const {
    return column < columns_.size() ? '"' + columns_[column] + '"' : std::to_string(column);
  }

  size_t column_of(const std::string& name, const char* option) const {
    if (columns_.empty())
      refuse(std::string("csv: ") + option + " = \"" + name + "\": names of columns need a header; " + name_ +
             " is read with header = false");
    const auto found = std::find(columns_.begin(), columns_.end(), name);
    if (found != columns_.end()) return static_cast<size_t>(found - columns_.begin());
    std::string all;
    for (const std::string& column : columns_) all += (all.empty() ? "" : ", ") + column;
    refuse(std::string("csv: ") + option + ": " + name_ + " has no column \"" + name + "\"; it has " + all);
  }

  void find_columns() {
    roles_.assign(width_, Role::kFeature);
    for (const std::string& name : options_.ignore) roles_[column_of(name, "ignore")] = Role::kIgnored;
    if (options_.target_kind != CsvTarget::kNone) {
      if (const auto* name = std::get_if<std::string>(&options_.target)) {
        target_ = column_of(*name, "target");
      } else {
        const int64_t number = std::get<int64_t>(options_.target);
        const auto width = static_cast<int64_t>(width_);
        if (number < -width || number >= width)
          refuse("csv: target: column " + std::to_string(number) + " does not exist, " + name_ + " has " +
                 std::to_string(width) + " columns");
        target_ = static_cast<size_t>(number < 0 ? number + width : number);
      }
      if (roles_[target_] == Role::kIgnored) refuse("csv: column " + column_name(target_) + " is target and ignored");
      roles_[target_] = Role::kTarget;
    }
    features_ = static_cast<size_t>(std::count(roles_.begin(), roles_.end(), Role::kFeature));
    if (features_ == 0)
      refuse(name_ + ": no column is left for features; is the separator '" + std::string(1, options_.separator) +
             "' right?");
    for (size_t i = 0; i < options_.classes.size(); ++i) numbers_.emplace(options_.classes[i], i);
    if (numbers_.size() != options_.classes.size()) refuse("csv: classes: a name occurs twice");
  }

  void add(const std::vector<std::string_view>& cells) {
    if (cells.size() != width_)
      fail(std::to_string(cells.size()) + " columns: expected " + std::to_string(width_) + " as in the first row");
    for (size_t i = 0; i < width_; ++i) {
      if (roles_[i] == Role::kFeature) {
        values_->push_back(number(cells[i], i, options_.missing));
      } else if (roles_[i] == Role::kTarget && options_.target_kind == CsvTarget::kReal) {
        reals_->push_back(number(cells[i], i, {}));
      } else if (roles_[i] == Role::kTarget) {
        labels_->push_back(label(cells[i], i));
      }
    }
    ++count_;
  }

  float number(std::string_view cell, size_t column, std::optional<float> missing) const {
    if (missing && is_missing(cell)) return *missing;
    const auto value = number_of(cell);
    if (value && std::isfinite(static_cast<float>(*value))) return static_cast<float>(*value);
    std::string text =
        "column " + column_name(column) + ": expected a finite number, got \"" + std::string(cell.substr(0, 40)) + '"';
    if (count_ == 0 && !options_.header) text += "; if this is the header, set header = true";
    if (is_missing(cell) && roles_[column] == Role::kFeature) text += "; set missing to give such cells a value";
    fail(text);
  }

  int64_t label(std::string_view cell, size_t column) {
    if (cell.empty()) fail("column " + column_name(column) + ": expected a class, got an empty cell");
    const auto found = numbers_.find(std::string(cell));
    if (found != numbers_.end()) return found->second;
    if (!options_.classes.empty())
      fail("column " + column_name(column) + ": \"" + std::string(cell.substr(0, 40)) + "\" is none of the " +
           std::to_string(options_.classes.size()) + " classes");
    const auto number = static_cast<int64_t>(numbers_.size());
    numbers_.emplace(cell, number);
    return number;
  }

  // Replaces the numbers of first appearance. Returns the names, if the classes are no numbers.
  std::vector<std::string> number_classes() {
    if (!options_.classes.empty()) return options_.classes;
    std::vector<std::pair<std::string, int64_t>> found(numbers_.begin(), numbers_.end());
    std::sort(found.begin(), found.end());
    std::vector<int64_t> final_numbers(found.size());
    constexpr double kLabelMax = 1e9;
    const bool whole = std::all_of(found.begin(), found.end(), [&](const auto& entry) {
      const auto value = number_of(entry.first);
      return value && *value >= 0 && *value <= kLabelMax && *value == std::floor(*value);
    });
    std::vector<std::string> names;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto& [name, number] = found[i];
      final_numbers[static_cast<size_t>(number)] =
          whole ? static_cast<int64_t>(*number_of(name)) : static_cast<int64_t>(i);
      if (!whole) names.push_back(name);
    }
    for (int64_t& label : *labels_) label = final_numbers[static_cast<size_t>(label)];
    return names;
  }

  DatasetPtr finish() {
    const auto width = static_cast<int64_t>(features_);
    std::vector<torch::Tensor> tensors{
        tensor_of(values_->data(), count_ * width, torch::kFloat, {count_, width}, values_)};
    if (options_.target_kind == CsvTarget::kNone) return tensor_dataset(std::move(tensors));
    if (options_.target_kind == CsvTarget::kReal) {
      tensors.push_back(tensor_of(reals_->data(), count_, torch::kFloat, {count_, 1}, reals_));
      return tensor_dataset(std::move(tensors));
    }
    std::vector<std::string> names = number_classes();
    tensors.push_back(tensor_of(labels_->data(), count_, torch::kLong, {count_}, labels_));
    return with_classes(tensor_dataset(std::move(tensors)), std::move(names));
  }

  std::string name_;
  const CsvOptions& options_;
  std::string text_;
  CsvRows rows_;
  std::vector<std::string> columns_;
  size_t width_ = 0;
  std::vector<Role> roles_;
  size_t target_ = 0;
  size_t features_ = 0;
  int64_t count_ = 0;
  std::shared_ptr<std::vector<float>> values_ = std::make_shared<std::vector<float>>();
  std::shared_ptr<std::vector<float>> reals_ = std::make_shared<std::vector<float>>();
  std::shared_ptr<std::vector<int64_t>> labels_ = std::make_shared<std::vector<int64_t>>();
  std::unordered_map<std::string, int64_t> numbers_;  // Class names; without options_.classes in order of appearance.
};

bool is_image(const fs::path& file) {
  const std::string extension = lower_case(file.extension().string());
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png" || extension == ".bmp";
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

class ImageFolder final : public Dataset {
 public:
  ImageFolder(const fs::path& folder, const ImageFolderOptions& options)
      : options_(options), scale_(options.normalise, options.channels) {
    if (options.height < 1 || options.width < 1)
      refuse("image_folder: height and width: expected at least 1, got " + std::to_string(options.height) + " x " +
             std::to_string(options.width));
    if (options.channels != 1 && options.channels != 3)
      refuse("image_folder: channels: expected 1 or 3, got " + std::to_string(options.channels));
    if (!fs::is_directory(folder))
      throw Exception(Error{ErrorCode::kNotFound, "image_folder: " + folder.string() + " is no folder"});
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_directory() && !is_hidden(entry.path())) classes_.push_back(entry.path().filename().string());
    std::sort(classes_.begin(), classes_.end());
    if (classes_.empty())
      refuse("image_folder: " + folder.string() + " has no sub-folder; expected one a class, with its images");
    for (size_t i = 0; i < classes_.size(); ++i) list(folder / classes_[i], static_cast<int64_t>(i));
  }

  int64_t size() const override { return static_cast<int64_t>(files_.size()); }

  Batch rows(std::span<const int64_t> rows) const override {
    const auto count = static_cast<int64_t>(rows.size());
    torch::Tensor pixels = torch::empty({count, options_.channels, options_.height, options_.width}, torch::kFloat);
    torch::Tensor labels = torch::empty({count}, torch::kLong);
    auto* label_out = labels.data_ptr<int64_t>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = rows[static_cast<size_t>(i)];
      if (row < 0 || row >= size())
        refuse("image_folder: row " + std::to_string(row) + " does not exist, the data set has " +
               std::to_string(size()) + " rows");
      const auto& [file, label] = files_[static_cast<size_t>(row)];
      pixels[i].copy_(resize_image(read_image(file, options_.channels), options_.height, options_.width));
      label_out[i] = label;
    }
    scale_.apply(pixels);
    return {.tensors = {std::move(pixels), std::move(labels)}};
  }

  std::vector<std::string> classes() const override { return classes_; }

 private:
  void list(const fs::path& folder, int64_t label) {
    std::vector<std::string> found;
    const auto follow = fs::directory_options::follow_directory_symlink;
    for (auto at = fs::recursive_directory_iterator(folder, follow); at != fs::recursive_directory_iterator(); ++at) {
      if (is_hidden(at->path())) {
        at.disable_recursion_pending();
      } else if (is_image(at->path()) && at->is_regular_file()) {
        found.push_back(at->path().string());
      }
    }
    if (found.empty())
      refuse("image_folder: class " + folder.string() +
             " has no .jpg, .jpeg, .png or .bmp file; remove the folder or "
             "add images");
    std::sort(found.begin(), found.end());
    for (std::string& file : found) files_.emplace_back(std::move(file), label);
  }

  ImageFolderOptions options_;
  PixelScale scale_;
  std::vector<std::string> classes_;
  std::vector<std::pair<std::string, int64_t>> files_;
};

}  // namespace

torch::Tensor idx(const fs::path& file) { return read_idx(file, {}, 0); }

DatasetPtr mnist(const fs::path& folder, bool train, const Normalise& normalise) {
  const std::string part = train ? "train" : "t10k";
  const std::vector<fs::path> folders{folder, folder / "raw", folder / "MNIST" / "raw"};
  const auto find = [&](const std::string& what) {
    return find_file(
        folders, {part + "-" + what + "-ubyte", part + "-" + (what.substr(0, 6) + "." + what.substr(7)) + "-ubyte"});
  };
  const fs::path image_file = find("images-idx3");
  const fs::path label_file = find("labels-idx1");
  torch::Tensor images = read_idx(image_file, torch::kByte, 3);
  const torch::Tensor labels = read_idx(label_file, torch::kByte, 1);
  if (images.size(0) != labels.size(0))
    refuse(image_file.string() + " has " + std::to_string(images.size(0)) + " images, " + label_file.string() +
           " has " + std::to_string(labels.size(0)) + " labels; expected equally many");
  constexpr int kClasses = 10;
  constexpr size_t kLabelHeader = 8;
  const auto* label = labels.data_ptr<uint8_t>();
  for (int64_t i = 0; i < labels.size(0); ++i)
    check_label(label_file, kLabelHeader + static_cast<size_t>(i), label[i], kClasses);
  return std::make_shared<PixelDataset>(images.unsqueeze(1), labels.to(torch::kLong), normalise,
                                        std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
}

DatasetPtr cifar10(const fs::path& folder, bool train, const Normalise& normalise) {
  const std::vector<fs::path> folders{folder, folder / "cifar-10-batches-bin"};
  std::vector<fs::path> files;
  if (train) {
    for (int i = 1; i <= 5; ++i) files.push_back(find_file(folders, {"data_batch_" + std::to_string(i) + ".bin"}));
  } else {
    files.push_back(find_file(folders, {"test_batch.bin"}));
  }
  return read_cifar(files, 1, 0, 10, normalise,
                    {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"});
}

DatasetPtr cifar100(const fs::path& folder, bool train, const Normalise& normalise, Cifar100Labels labels) {
  const std::vector<fs::path> folders{folder, folder / "cifar-100-binary"};
  const bool fine = labels == Cifar100Labels::kFine;
  const int classes = fine ? 100 : 20;
  return read_cifar(
      {find_file(folders, {train ? "train.bin" : "test.bin"})}, 2, fine ? 1 : 0, classes, normalise,
      names_from(folders, fine ? "fine_label_names.txt" : "coarse_label_names.txt", static_cast<size_t>(classes)));
}

DatasetPtr csv(const fs::path& file, const CsvOptions& options) { return CsvLoad(file, options).run(); }

DatasetPtr image_folder(const fs::path& folder, const ImageFolderOptions& options) {
  return std::make_shared<ImageFolder>(folder, options);
}

torch::Tensor read_image(const fs::path& file, int channels) {
  const auto image = decode_image(read_file(file), channels);
  if (!image) throw Exception(Error{image.error().code, file.string() + ": " + image.error().message});
  const int64_t elements = image->height * image->width * image->channels;
  return tensor_of(image->bytes.get(), elements, torch::kByte, {image->height, image->width, image->channels},
                   image->bytes)
      .permute({2, 0, 1});
}

torch::Tensor resize_image(const torch::Tensor& image, int64_t height, int64_t width) {
  if (image.dim() != 3)
    refuse("resize_image: expected [channels, height, width], got " + std::to_string(image.dim()) + " dimensions");
  torch::Tensor pixels = image.to(torch::kFloat).contiguous();
  if (image.size(1) == height && image.size(2) == width) return pixels;
  return at::_upsample_bilinear2d_aa(pixels.unsqueeze(0), {height, width}, /*align_corners=*/false)[0];
}

}  // namespace volador::train
