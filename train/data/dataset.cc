#include "train/data/dataset.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

#include "runtime/result.h"
#include "train/core/sampler.h"

namespace volador::train {
namespace {

[[noreturn]] void refuse(std::string message) {
  throw Exception(Error{ErrorCode::kInvalidArgument, std::move(message)});
}

// "[60000, 28, 28] Float"
std::string shape_of(const torch::Tensor& tensor) {
  std::ostringstream out;
  out << tensor.sizes() << ' ' << c10::toString(tensor.scalar_type());
  return out.str();
}

void check_rows(std::span<const int64_t> rows, int64_t size, const char* what) {
  for (const int64_t row : rows) {
    if (row < 0 || row >= size)
      refuse(std::string(what) + ": row " + std::to_string(row) + " does not exist, the data set has " +
             std::to_string(size) + " rows");
  }
}

class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(std::vector<torch::Tensor> tensors) : tensors_(std::move(tensors)) {
    if (tensors_.empty()) refuse("tensor_dataset: expected at least one tensor");
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const std::string name = "tensor_dataset: tensor " + std::to_string(i);
      if (!tensors_[i].defined()) refuse(name + " is undefined");
      if (tensors_[i].dim() == 0) refuse(name + " has no dimension; its first dimension must be the row");
      if (tensors_[i].size(0) != tensors_[0].size(0))
        refuse(name + " has " + std::to_string(tensors_[i].size(0)) + " rows, tensor 0 has " +
               std::to_string(tensors_[0].size(0)) + "; the first dimensions must be equal");
      tensors_[i] = tensors_[i].detach();
    }
  }

  int64_t size() const override { return tensors_[0].size(0); }

  Batch rows(std::span<const int64_t> rows) const override {
    check_rows(rows, size(), "tensor_dataset");
    // index_select() only reads the index, which lives as long as this call.
    const torch::Tensor index =
        torch::from_blob(const_cast<int64_t*>(rows.data()), {static_cast<int64_t>(rows.size())}, torch::kLong);
    Batch batch;
    for (const torch::Tensor& tensor : tensors_)
      batch.tensors.push_back(tensor.index_select(0, tensor.is_cpu() ? index : index.to(tensor.device())));
    return batch;
  }

 private:
  std::vector<torch::Tensor> tensors_;
};

class MapDataset final : public Dataset {
 public:
  using Function = std::function<std::vector<torch::Tensor>(int64_t)>;
  MapDataset(int64_t size, Function function) : size_(size), function_(std::move(function)) {
    if (size < 0) refuse("map_dataset: size: expected a number of rows, got " + std::to_string(size));
    if (!function_) refuse("map_dataset: the function is empty");
  }

  int64_t size() const override { return size_; }

  Batch rows(std::span<const int64_t> rows) const override {
    check_rows(rows, size_, "map_dataset");
    Batch batch;
    if (rows.empty() && size_ == 0) return batch;
    const std::vector<torch::Tensor> first = row(rows.empty() ? 0 : rows[0]);
    std::vector<std::vector<torch::Tensor>> columns(first.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      std::vector<torch::Tensor> tensors = i == 0 ? first : row(rows[i]);
      check_alike(tensors, rows[i], first, rows[0]);
      for (size_t j = 0; j < tensors.size(); ++j) columns[j].push_back(std::move(tensors[j]));
    }
    for (size_t j = 0; j < columns.size(); ++j)
      batch.tensors.push_back(rows.empty() ? first[j].unsqueeze(0).narrow(0, 0, 0) : torch::stack(columns[j]));
    return batch;
  }

 private:
  std::vector<torch::Tensor> row(int64_t number) const {
    const std::string where = "map_dataset: row " + std::to_string(number) + ": ";
    std::vector<torch::Tensor> tensors;
    try {
      tensors = function_(number);
    } catch (const Exception& exception) {
      throw Exception(Error{exception.code(), where + exception.error().message});
    } catch (const c10::Error& error) {
      throw Exception(Error{ErrorCode::kApplication, where + error.what_without_backtrace()});
    } catch (const std::exception& error) {
      throw Exception(Error{ErrorCode::kApplication, where + error.what()});
    }
    for (const torch::Tensor& tensor : tensors)
      if (!tensor.defined()) refuse(where + "the function returned an undefined tensor");
    return tensors;
  }

  static void check_alike(const std::vector<torch::Tensor>& tensors, int64_t row,
                          const std::vector<torch::Tensor>& first, int64_t first_row) {
    const std::string other = ", row " + std::to_string(first_row) + " has ";
    if (tensors.size() != first.size())
      refuse("map_dataset: row " + std::to_string(row) + " has " + std::to_string(tensors.size()) + " tensors" + other +
             std::to_string(first.size()) + "; all rows must have equally many");
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].sizes() == first[i].sizes() && tensors[i].scalar_type() == first[i].scalar_type()) continue;
      refuse("map_dataset: tensor " + std::to_string(i) + ": row " + std::to_string(row) + " has " +
             shape_of(tensors[i]) + other + shape_of(first[i]) +
             "; all rows must have one shape and type: pad, resize or convert them in the function");
    }
  }

  int64_t size_ = 0;
  Function function_;
};

class Subset final : public Dataset {
 public:
  Subset(DatasetPtr dataset, std::vector<int64_t> rows) : dataset_(std::move(dataset)), rows_(std::move(rows)) {
    check_rows(rows_, dataset_->size(), "subset");
  }
  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  Batch rows(std::span<const int64_t> rows) const override {
    check_rows(rows, size(), "subset");
    std::vector<int64_t> inner;
    inner.reserve(rows.size());
    for (const int64_t row : rows) inner.push_back(rows_[static_cast<size_t>(row)]);
    return dataset_->rows(inner);
  }
  std::vector<std::string> classes() const override { return dataset_->classes(); }

 private:
  DatasetPtr dataset_;
  std::vector<int64_t> rows_;
};

class Transformed final : public Dataset {
 public:
  Transformed(DatasetPtr dataset, Transform transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}
  int64_t size() const override { return dataset_->size(); }
  Batch rows(std::span<const int64_t> rows) const override { return transform_(dataset_->rows(rows)); }
  std::vector<std::string> classes() const override { return dataset_->classes(); }

 private:
  DatasetPtr dataset_;
  Transform transform_;
};

class Classified final : public Dataset {
 public:
  Classified(DatasetPtr dataset, std::vector<std::string> classes)
      : dataset_(std::move(dataset)), classes_(std::move(classes)) {}
  int64_t size() const override { return dataset_->size(); }
  Batch rows(std::span<const int64_t> rows) const override { return dataset_->rows(rows); }
  std::vector<std::string> classes() const override { return classes_; }

 private:
  DatasetPtr dataset_;
  std::vector<std::string> classes_;
};

DatasetPtr not_null(DatasetPtr dataset, const char* what) {
  if (!dataset) refuse(std::string(what) + ": the data set is null");
  return dataset;
}

template <class Change>
Batch changed(const Batch& batch, Change change) {
  Batch result;
  for (const torch::Tensor& tensor : batch.tensors) result.tensors.push_back(change(tensor));
  for (const auto& [name, tensor] : batch.named) result.named.emplace(name, change(tensor));
  return result;
}

}  // namespace

int64_t Batch::size() const {
  const torch::Tensor* tensor = !tensors.empty() ? &tensors.front() : !named.empty() ? &named.begin()->second : nullptr;
  return tensor != nullptr && tensor->defined() && tensor->dim() > 0 ? tensor->size(0) : 0;
}

const torch::Tensor& Batch::features() const {
  if (tensors.empty()) refuse("Batch::features: the batch has no tensor; named ones are read with batch[\"name\"]");
  return tensors.front();
}

const torch::Tensor& Batch::target() const {
  if (tensors.size() < 2)
    refuse("Batch::target: the batch has " + std::to_string(tensors.size()) +
           " tensors; with at least two the last is the target");
  return tensors.back();
}

std::span<const torch::Tensor> Batch::inputs() const {
  return std::span(tensors).first(tensors.empty() ? 0 : tensors.size() - 1);
}

const torch::Tensor& Batch::operator[](size_t index) const {
  if (index >= tensors.size())
    refuse("Batch: tensor " + std::to_string(index) + " does not exist, the batch has " +
           std::to_string(tensors.size()));
  return tensors[index];
}

const torch::Tensor& Batch::operator[](const std::string& name) const {
  const auto found = named.find(name);
  if (found != named.end()) return found->second;
  std::string names;
  for (const auto& entry : named) names += (names.empty() ? "" : ", ") + entry.first;
  refuse("Batch: there is no tensor \"" + name + "\"; the batch has " + (names.empty() ? "no named tensor" : names));
}

Batch Batch::to(torch::Device device, bool non_blocking) const {
  return changed(*this, [&](const torch::Tensor& tensor) { return tensor.to(device, non_blocking); });
}

Batch Batch::pin_memory() const {
  return changed(*this, [](const torch::Tensor& tensor) { return tensor.is_cpu() ? tensor.pin_memory() : tensor; });
}

DatasetPtr tensor_dataset(std::vector<torch::Tensor> tensors, Transform transform) {
  DatasetPtr dataset = std::make_shared<TensorDataset>(std::move(tensors));
  return transform ? transformed(std::move(dataset), std::move(transform)) : dataset;
}

DatasetPtr map_dataset(int64_t size, std::function<std::vector<torch::Tensor>(int64_t row)> function) {
  return std::make_shared<MapDataset>(size, std::move(function));
}

DatasetPtr subset(DatasetPtr dataset, std::vector<int64_t> rows) {
  return std::make_shared<Subset>(not_null(std::move(dataset), "subset"), std::move(rows));
}

std::vector<DatasetPtr> split(DatasetPtr dataset, const std::vector<double>& fractions, uint64_t seed) {
  const int64_t size = not_null(dataset, "split")->size();
  double sum = 0;
  for (const double fraction : fractions) {
    if (!(fraction > 0)) refuse("split: expected fractions above 0, got " + std::to_string(fraction));
    sum += fraction;
  }
  if (std::abs(sum - 1) > 1e-6)
    refuse("split: the fractions must add up to 1, got " + std::to_string(sum) + "; use subset() to leave rows out");
  const std::vector<int64_t> order = shuffled_rows(size, seed, 0);
  std::vector<DatasetPtr> parts;
  double end = 0;
  int64_t first = 0;
  for (size_t i = 0; i < fractions.size(); ++i) {
    end += fractions[i];
    const int64_t last =
        i + 1 == fractions.size() ? size : std::min<int64_t>(size, std::llround(end * static_cast<double>(size)));
    parts.push_back(subset(dataset, std::vector<int64_t>(order.begin() + first, order.begin() + last)));
    first = last;
  }
  return parts;
}

DatasetPtr transformed(DatasetPtr dataset, Transform transform) {
  if (!transform) refuse("transformed: the transform is empty");
  return std::make_shared<Transformed>(not_null(std::move(dataset), "transformed"), std::move(transform));
}

DatasetPtr with_classes(DatasetPtr dataset, std::vector<std::string> classes) {
  return std::make_shared<Classified>(not_null(std::move(dataset), "with_classes"), std::move(classes));
}

torch::Tensor tensor_of(const void* memory, int64_t elements, torch::ScalarType type, torch::IntArrayRef sizes,
                        std::shared_ptr<const void> owner) {
  std::vector<int64_t> full = sizes.vec();
  int64_t known = 1;
  bool valid = true;
  int64_t* open = nullptr;
  for (int64_t& size : full) {
    if (size == -1 && open == nullptr) {
      open = &size;
    } else {
      valid = valid && size >= 0 && !__builtin_mul_overflow(known, size, &known);
    }
  }
  if (valid && open != nullptr) {
    valid = known > 0 && elements % known == 0;
    if (valid) *open = elements / known;
  } else {
    valid = valid && known == elements;
  }
  if (!valid) {
    std::ostringstream text;
    text << "tensor_of: sizes " << sizes << " do not fit " << elements << " elements";
    refuse(text.str());
  }
  if (elements == 0) return torch::empty(full, type);
  return torch::from_blob(
      const_cast<void*>(memory), full, [owner = std::move(owner)](void*) {}, type);
}

}  // namespace volador::train
