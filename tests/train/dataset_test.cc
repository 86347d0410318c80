#include "train/data/dataset.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "runtime/result.h"
#include "tests/train/refusals.h"
#include "train/data/array_tensor.h"

namespace volador::train {
namespace {

using Rows = std::vector<int64_t>;

Rows all_rows(const Dataset& dataset) {
  Rows rows(static_cast<size_t>(dataset.size()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

Rows values_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.to(torch::kLong).contiguous().view(-1);
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

DatasetPtr squares() { return tensor_dataset({torch::arange(10), torch::arange(10).mul(10)}); }

TEST(TensorDataset, ReadsRowsInTheGivenOrder) {
  const auto images = torch::arange(24, torch::kFloat).view({4, 2, 3});
  const DatasetPtr dataset = tensor_dataset({images, torch::arange(4)});
  EXPECT_EQ(dataset->size(), 4);
  const Batch batch = dataset->rows(Rows{3, 0, 3});
  EXPECT_EQ(batch.size(), 3);
  EXPECT_TRUE(torch::equal(batch.features(), torch::stack({images[3], images[0], images[3]})));
  EXPECT_EQ(values_of(batch.target()), (Rows{3, 0, 3}));
  EXPECT_TRUE(torch::equal(batch[0], batch.features()));
  EXPECT_EQ(batch.inputs().size(), 1U);
}

TEST(TensorDataset, NoRowsGiveAnEmptyBatchWithItsShape) {
  const DatasetPtr dataset = tensor_dataset({torch::zeros({4, 2, 3}), torch::arange(4)});
  const Batch batch = dataset->rows({});
  EXPECT_EQ(batch.size(), 0);
  EXPECT_EQ(batch.features().sizes(), (torch::IntArrayRef{0, 2, 3}));
  EXPECT_EQ(batch.target().scalar_type(), torch::kLong);
}

TEST(TensorDataset, BatchesAreCopies) {
  const DatasetPtr dataset = squares();
  dataset->rows(Rows{1, 2})[0].fill_(99);
  EXPECT_EQ(values_of(dataset->rows(Rows{1, 2})[0]), (Rows{1, 2}));
}

TEST(TensorDataset, TransformChangesEachBatch) {
  const DatasetPtr dataset = tensor_dataset({torch::arange(6), torch::arange(6)}, [](Batch batch) {
    batch.tensors[0] = batch.tensors[0].to(torch::kFloat).div_(2);
    return batch;
  });
  EXPECT_TRUE(torch::equal(dataset->rows(Rows{5})[0], torch::tensor({2.5F})));
}

TEST(TensorDataset, RefusesTensorsThatDoNotFit) {
  expect_refused([] { tensor_dataset({}); }, "tensor_dataset: expected at least one tensor");
  expect_refused(
      [] {
        tensor_dataset({torch::zeros({60, 2}), torch::zeros({59})});
      },
      "tensor_dataset: tensor 1 has 59 rows, tensor 0 has 60; the first dimensions must be equal");
  expect_refused([] { tensor_dataset({torch::zeros({})}); },
                 "tensor_dataset: tensor 0 has no dimension; its first dimension must be the row");
  expect_refused([] { tensor_dataset({torch::Tensor()}); }, "tensor_dataset: tensor 0 is undefined");
}

TEST(TensorDataset, RefusesRowsThatDoNotExist) {
  expect_refused(
      [] {
        squares()->rows(Rows{3, 10});
      },
      "tensor_dataset: row 10 does not exist, the data set has 10 rows");
  expect_refused([] { squares()->rows(Rows{-1}); }, "tensor_dataset: row -1 does not exist, the data set has 10 rows");
}

TEST(MapDataset, StacksTheTensorsOfTheRows) {
  const DatasetPtr dataset = map_dataset(100, [](int64_t row) {
    return std::vector<torch::Tensor>{torch::full({2}, static_cast<double>(row)), torch::tensor(row)};
  });
  const Batch batch = dataset->rows(Rows{7, 9});
  EXPECT_TRUE(torch::equal(batch.features(), torch::tensor({{7.0F, 7.0F}, {9.0F, 9.0F}})));
  EXPECT_EQ(values_of(batch.target()), (Rows{7, 9}));
  EXPECT_EQ(dataset->rows({}).features().sizes(), (torch::IntArrayRef{0, 2}));
  EXPECT_EQ(dataset->rows({}).target().sizes(), (torch::IntArrayRef{0}));
}

TEST(MapDataset, NamesTheRowWhoseShapeDiffers) {
  const DatasetPtr dataset = map_dataset(10, [](int64_t row) {
    return std::vector<torch::Tensor>{torch::zeros({3, row == 6 ? 5 : 4}), torch::zeros({})};
  });
  expect_refused(
      [&] {
        dataset->rows(Rows{2, 6});
      },
      "map_dataset: tensor 0: row 6 has [3, 5] Float, row 2 has [3, 4] Float; all rows must have one shape "
      "and type: pad, resize or convert them in the function");
  const DatasetPtr counts =
      map_dataset(10, [](int64_t row) { return std::vector<torch::Tensor>(row == 1 ? 2 : 1, torch::zeros({1})); });
  expect_refused(
      [&] {
        counts->rows(Rows{0, 1});
      },
      "map_dataset: row 1 has 2 tensors, row 0 has 1; all rows must have equally many");
}

TEST(MapDataset, NamesTheRowWhoseFunctionThrows) {
  const DatasetPtr dataset = map_dataset(10, [](int64_t row) -> std::vector<torch::Tensor> {
    if (row == 4) throw std::runtime_error("no such picture");
    if (row == 5) throw Exception(Error{ErrorCode::kNotFound, "gone"});
    return {torch::zeros({1})};
  });
  Error error = error_of([&] { dataset->rows(Rows{3, 4}); });
  EXPECT_EQ(error.code, ErrorCode::kApplication);
  EXPECT_EQ(error.message, "map_dataset: row 4: no such picture");
  error = error_of([&] { dataset->rows(Rows{5}); });
  EXPECT_EQ(error.code, ErrorCode::kNotFound);
  EXPECT_EQ(error.message, "map_dataset: row 5: gone");
}

TEST(Subset, ReadsItsRowsOnly) {
  const DatasetPtr part = subset(squares(), {9, 1, 1});
  EXPECT_EQ(part->size(), 3);
  EXPECT_EQ(values_of(part->rows(Rows{0, 2}).target()), (Rows{90, 10}));
  expect_refused([&] { part->rows(Rows{3}); }, "subset: row 3 does not exist, the data set has 3 rows");
  expect_refused([] { subset(squares(), {10}); }, "subset: row 10 does not exist, the data set has 10 rows");
}

TEST(Split, PartsShareNoRowAndHoldAll) {
  for (const int64_t size : {0, 1, 7, 10, 101}) {
    const DatasetPtr dataset = tensor_dataset({torch::arange(size)});
    const auto parts = split(dataset, {0.7, 0.2, 0.1}, 3);
    ASSERT_EQ(parts.size(), 3U);
    Rows all;
    for (const DatasetPtr& part : parts) {
      const Rows rows = values_of(part->rows(all_rows(*part))[0]);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, all_rows(*dataset));
  }
  const auto parts = split(tensor_dataset({torch::arange(1000)}), {0.8, 0.2}, 1);
  EXPECT_EQ(parts[0]->size(), 800);
  EXPECT_EQ(parts[1]->size(), 200);
}

TEST(Split, DependsOnTheSeedOnly) {
  const DatasetPtr dataset = tensor_dataset({torch::arange(100)});
  const auto first = [&](uint64_t seed) {
    const DatasetPtr part = split(dataset, {0.5, 0.5}, seed)[0];
    return values_of(part->rows(all_rows(*part))[0]);
  };
  EXPECT_EQ(first(1), first(1));
  EXPECT_NE(first(1), first(2));
}

TEST(Split, RefusesFractionsThatDoNotAddUp) {
  EXPECT_EQ(error_of([] {
              split(squares(), {0.8, 0.1});
            }).message,
            "split: the fractions must add up to 1, got 0.900000; use subset() to leave rows out");
  EXPECT_EQ(error_of([] {
              split(squares(), {1.5, -0.5});
            }).message,
            "split: expected fractions above 0, got -0.500000");
  EXPECT_EQ(error_of([] { split(squares(), {}); }).code, ErrorCode::kInvalidArgument);
}

TEST(WithClasses, SubsetsAndTransformsKeepTheNames) {
  const DatasetPtr named = with_classes(squares(), {"cat", "dog"});
  const DatasetPtr part = transformed(subset(named, {1}), [](Batch batch) { return batch; });
  EXPECT_EQ(part->classes(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_TRUE(squares()->classes().empty());
}

TEST(Batch, FindsNamedTensors) {
  Batch batch;
  batch.named = {{"mask", torch::ones({3})}, {"tokens", torch::zeros({3, 5})}};
  EXPECT_EQ(batch.size(), 3);
  EXPECT_EQ(batch["tokens"].sizes(), (torch::IntArrayRef{3, 5}));
  EXPECT_EQ(batch.to(torch::kCPU)["mask"].sizes(), (torch::IntArrayRef{3}));
  expect_refused([&] { (void)batch["token"]; }, "Batch: there is no tensor \"token\"; the batch has mask, tokens");
  expect_refused([&] { (void)batch[1]; }, "Batch: tensor 1 does not exist, the batch has 0");
  expect_refused([&] { (void)batch.target(); },
                 "Batch::target: the batch has 0 tensors; with at least two the last is the target");
  EXPECT_EQ(Batch().size(), 0);
}

TEST(TensorOf, SharesTheMemoryOfAnArrayAndKeepsIt) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{0, 1, 2, 3, 4, 5});
  const std::weak_ptr<std::vector<float>> watch = owner;
  torch::Tensor row;
  {
    const Array<float> array(std::span<const float>(*owner), owner);
    const torch::Tensor tensor = tensor_of(array, {-1, 3});
    EXPECT_EQ(tensor.sizes(), (torch::IntArrayRef{2, 3}));
    EXPECT_EQ(tensor.data_ptr<float>(), array.data());
    row = tensor[1];
  }
  owner.reset();
  EXPECT_FALSE(watch.expired());
  EXPECT_TRUE(torch::equal(row, torch::tensor({3.0F, 4.0F, 5.0F})));
  row.reset();
  EXPECT_TRUE(watch.expired());
}

TEST(TensorOf, MakesADataSetOfArraysOfSeveralTypes) {
  const Array<uint8_t> pixels(std::vector<uint8_t>{1, 2, 3, 4});
  const Array<int64_t> labels(std::vector<int64_t>{7, 8});
  const DatasetPtr dataset = tensor_dataset({tensor_of(pixels, {2, 2}), tensor_of(labels)});
  const Batch batch = dataset->rows(Rows{1});
  EXPECT_EQ(batch.features().scalar_type(), torch::kByte);
  EXPECT_EQ(values_of(batch.features()), (Rows{3, 4}));
  EXPECT_EQ(values_of(batch.target()), (Rows{8}));
  EXPECT_EQ(tensor_of(Array<float>(), {0, 3}).sizes(), (torch::IntArrayRef{0, 3}));
}

TEST(TensorOf, RefusesSizesThatDoNotFit) {
  const Array<float> array(std::vector<float>(6));
  expect_refused([&] { tensor_of(array, {2, 2}); }, "tensor_of: sizes [2, 2] do not fit 6 elements");
  expect_refused([&] { tensor_of(array, {-1, 4}); }, "tensor_of: sizes [-1, 4] do not fit 6 elements");
  expect_refused([&] { tensor_of(array, {-1, -1}); }, "tensor_of: sizes [-1, -1] do not fit 6 elements");
  expect_refused([&] { tensor_of(array, {-1, 0}); }, "tensor_of: sizes [-1, 0] do not fit 6 elements");
}

}  // namespace
}  // namespace volador::train
