#include "train/data/readers.h"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <zlib.h>

#include <fstream>
#include <numeric>
#include <random>

#include "runtime/result.h"
#include "tests/temporary_directory.h"
#include "tests/train/refusals.h"
#include "train/data/csv_rows.h"
#include "train/data/image_file.h"

namespace volador::train {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<int64_t>;
using namespace std::string_literals;

Batch all_of(const DatasetPtr& dataset) {
  Rows rows(static_cast<size_t>(dataset->size()));
  std::iota(rows.begin(), rows.end(), 0);
  return dataset->rows(rows);
}

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

std::string idx_bytes(int type, const std::vector<uint32_t>& sizes, const std::string& data) {
  std::string bytes{'\0', '\0', static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const uint32_t size : sizes) bytes += big_endian(size);
  return bytes + data;
}

// Packs with gzip.
std::string gz(const std::string& data) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(data.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A PNG file of 8 bits a channel; `pixels` row by row.
std::string png_bytes(uint32_t width, uint32_t height, int channels, const std::string& pixels) {
  std::string lines;
  const size_t stride = width * static_cast<size_t>(channels);
  for (size_t y = 0; y < height; ++y) lines += '\0' + pixels.substr(y * stride, stride);
  uLongf size = compressBound(lines.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(lines.data()), lines.size());
  packed.resize(size);
  std::string out = "\x89PNG\r\n\x1a\n";
  const auto chunk = [&](const std::string& type, const std::string& data) {
    const std::string body = type + data;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    out += big_endian(static_cast<uint32_t>(data.size())) + body + big_endian(static_cast<uint32_t>(sum));
  };
  const char kind = channels == 1 ? 0 : channels == 3 ? 2 : 6;
  chunk("IHDR", big_endian(width) + big_endian(height) + std::string{8, kind, 0, 0, 0});
  chunk("IDAT", packed);
  chunk("IEND", "");
  return out;
}

class Readers : public testing::Test {
 protected:
  fs::path write(const fs::path& name, const std::string& bytes) {
    const fs::path file = folder() / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  const fs::path& folder() const { return directory_.path(); }
  std::string at(const std::string& name) const { return (folder() / name).string(); }

 private:
  TemporaryDirectory directory_;
};

using Idx = Readers;
using Mnist = Readers;
using Cifar = Readers;
using Csv = Readers;
using ImageFolder = Readers;

TEST_F(Idx, ReadsEveryType) {
  const auto read = [&](int type, const std::string& data, uint32_t count) {
    return idx(write("file", idx_bytes(type, {count}, data)));
  };
  EXPECT_TRUE(torch::equal(read(0x08, "\xFF\x01"s, 2), torch::tensor({255, 1}, torch::kByte)));
  EXPECT_TRUE(torch::equal(read(0x09, "\xFF\x01"s, 2), torch::tensor({-1, 1}, torch::kChar)));
  EXPECT_TRUE(torch::equal(read(0x0B, "\x01\x02\xFF\xFE"s, 2), torch::tensor({258, -2}, torch::kShort)));
  EXPECT_TRUE(torch::equal(read(0x0C, "\x00\x01\x00\x02"s, 1), torch::tensor({65538}, torch::kInt)));
  EXPECT_TRUE(torch::equal(read(0x0D, "\x3F\xC0\x00\x00"s, 1), torch::tensor({1.5F})));
  EXPECT_TRUE(torch::equal(read(0x0E, "\xC0\x04\x00\x00\x00\x00\x00\x00"s, 1), torch::tensor({-2.5}, torch::kDouble)));
}

TEST_F(Idx, ReadsSizesAndGzip) {
  const std::string bytes = idx_bytes(8, {2, 1, 3}, "abcdef");
  const torch::Tensor plain = idx(write("plain", bytes));
  EXPECT_EQ(plain.sizes(), (torch::IntArrayRef{2, 1, 3}));
  EXPECT_EQ(plain[1][0][2].item<int>(), 'f');
  EXPECT_TRUE(torch::equal(idx(write("packed.gz", gz(bytes))), plain));
  EXPECT_EQ(idx(write("empty", idx_bytes(8, {0, 5}, ""))).sizes(), (torch::IntArrayRef{0, 5}));
}

TEST_F(Idx, NamesWhatIsWrong) {
  EXPECT_EQ(error_of([&] { idx(folder() / "none"); }),
            (Error{ErrorCode::kNotFound, at("none") + ": there is no such file"}));
  expect_refused([&] { idx(folder()); }, folder().string() + ": expected a regular file");
  expect_refused([&] { idx(write("a", "ab")); },
                 at("a") + ": offset 2: the file ends within the magic number of an IDX file");
  expect_refused([&] { idx(write("a", "PK\3\4")); },
                 at("a") +
                     ": offset 0: magic number 1347093252: expected two zero bytes, a type 8, 9, 11, 12, 13 or 14 "
                     "and the number of dimensions; is this an IDX file?");
  expect_refused(
      [&] {
        idx(write("a", idx_bytes(8, {7, 2}, "").substr(0, 11)));
      },
      at("a") + ": offset 11: the file ends within its 2 dimensions");
  expect_refused(
      [&] {
        idx(write("a", idx_bytes(0x0B, {7, 2}, "abc")));
      },
      at("a") + ": offset 12: sizes 7 2 mean 14 elements of 2 bytes, the file has 3 bytes of data; is it cut off?");
  expect_refused(
      [&] { idx(write("a", idx_bytes(8, {2}, "abc"))); },
      at("a") + ": offset 8: sizes 2 mean 2 elements of 1 bytes, the file has 3 bytes of data; is it cut off?");
  expect_refused(
      [&] {
        idx(write("a", idx_bytes(8, {~0U, ~0U, ~0U}, "abc")));
      },
      at("a") +
          ": offset 16: sizes 4294967295 4294967295 4294967295 are too many, the file has 3 bytes of "
          "data; is it cut off?");
}

TEST_F(Idx, RefusesEmptyArraysWhoseStridesOverflow) {
  EXPECT_EQ(error_of([&] { idx(write("a", idx_bytes(8, {0, ~0U, ~0U, ~0U}, ""))); }).code, ErrorCode::kInvalidArgument);
}

TEST_F(Idx, NamesDamagedGzip) {
  const std::string packed = gz(idx_bytes(8, {300}, std::string(300, 'x')));
  const Error cut = error_of([&] { idx(write("cut.gz", packed.substr(0, packed.size() - 9))); });
  EXPECT_EQ(cut.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(cut.message.find("cut.gz: the gzip data is cut off"), std::string::npos) << cut.message;
  std::string damaged = packed;
  damaged[packed.size() - 6] ^= 1;  // The checksum.
  const Error wrong = error_of([&] { idx(write("damaged.gz", damaged)); });
  EXPECT_EQ(wrong.code, ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.message.find("damaged.gz: the gzip data is damaged"), std::string::npos) << wrong.message;
}

TEST_F(Mnist, ReadsAnyNumberOfImagesPlainAndPacked) {
  write("train-images-idx3-ubyte", idx_bytes(8, {3, 2, 2}, "\x00\xFF\x33\x00\x01\x02\x03\x04\xFF\xFF\xFF\xFF"s));
  write("train-labels-idx1-ubyte", idx_bytes(8, {3}, "\x09\x00\x05"s));
  write("MNIST/raw/t10k-images-idx3-ubyte.gz", gz(idx_bytes(8, {1, 2, 2}, "\x00\x00\x00\xFF"s)));
  write("MNIST/raw/t10k-labels.idx1-ubyte", idx_bytes(8, {1}, "\x04"s));
  const DatasetPtr train = mnist(folder(), true);
  EXPECT_EQ(train->size(), 3);
  const Batch batch = train->rows(Rows{0, 2});
  EXPECT_TRUE(torch::allclose(batch.features(),
                              torch::tensor({0.0F, 1.0F, 0.2F, 0.0F, 1.0F, 1.0F, 1.0F, 1.0F}).view({2, 1, 2, 2})));
  EXPECT_TRUE(torch::equal(batch.target(), torch::tensor({9, 5}, torch::kLong)));
  EXPECT_EQ(train->rows({}).features().sizes(), (torch::IntArrayRef{0, 1, 2, 2}));
  EXPECT_EQ(train->classes().size(), 10U);
  const DatasetPtr test = mnist(folder(), false, {.mean = {0.5}, .std = {0.25}});
  EXPECT_TRUE(torch::allclose(all_of(test).features(), torch::tensor({-2.0F, -2.0F, -2.0F, 2.0F}).view({1, 1, 2, 2})));
}

TEST_F(Mnist, NamesWhatIsWrong) {
  const Error missing = error_of([&] { mnist(folder(), true); });
  EXPECT_EQ(missing.code, ErrorCode::kNotFound);
  EXPECT_EQ(missing.message.find("found no file train-images-idx3-ubyte or train-images.idx3-ubyte, plain or .gz, in " +
                                 folder().string()),
            0U)
      << missing.message;
  write("train-images-idx3-ubyte", idx_bytes(8, {2, 1, 1}, "ab"));
  write("train-labels-idx1-ubyte", idx_bytes(8, {3}, "\1\2\3"s));
  expect_refused([&] { mnist(folder(), true); }, at("train-images-idx3-ubyte") + " has 2 images, " +
                                                     at("train-labels-idx1-ubyte") +
                                                     " has 3 labels; expected equally many");
  write("train-labels-idx1-ubyte", idx_bytes(8, {2}, "\1\x0A"s));
  expect_refused([&] { mnist(folder(), true); },
                 at("train-labels-idx1-ubyte") + ": offset 9: label 10: expected 0 to 9");
  write("train-labels-idx1-ubyte", idx_bytes(8, {2, 1}, "\1\2"s));
  expect_refused([&] { mnist(folder(), true); },
                 at("train-labels-idx1-ubyte") + ": offset 3: 2 dimensions: expected 1");
  write("train-images-idx3-ubyte", idx_bytes(9, {2, 1, 1}, "ab"));
  expect_refused([&] { mnist(folder(), true); },
                 at("train-images-idx3-ubyte") + ": offset 2: type 9: expected 8, bytes");
  write("train-images-idx3-ubyte", idx_bytes(8, {2, 1, 1}, "ab"));
  write("train-labels-idx1-ubyte", idx_bytes(8, {2}, "\1\2"s));
  expect_refused(
      [&] {
        mnist(folder(), true, {.mean = {1, 2, 3}});
      },
      "normalise.mean: expected 1 or 1 numbers, one a channel, got 3");
  expect_refused([&] { mnist(folder(), true, {.std = {0}}); }, "normalise.std: expected numbers above 0, got 0.000000");
}

std::string cifar_record(const std::string& labels, char red, char green, char blue) {
  return labels + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

TEST_F(Cifar, ReadsTheFilesOfCifar10InOrder) {
  for (char i = 1; i <= 5; ++i)
    write("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin",
          cifar_record({i}, '\x00', '\x33', '\xFF') + cifar_record({'\0'}, i, i, i));
  write("cifar-10-batches-bin/test_batch.bin.gz", gz(cifar_record("\x09", '\x66', 0, 0)));
  const Batch batch = all_of(cifar10(folder(), true));
  EXPECT_EQ(batch.features().sizes(), (torch::IntArrayRef{10, 3, 32, 32}));
  EXPECT_TRUE(torch::equal(batch.target(), torch::tensor({1, 0, 2, 0, 3, 0, 4, 0, 5, 0}, torch::kLong)));
  EXPECT_TRUE(torch::allclose(batch.features()[0].mean({1, 2}), torch::tensor({0.0F, 0.2F, 1.0F})));
  EXPECT_TRUE(torch::allclose(batch.features()[9].mean({1, 2}), torch::full({3}, 5.0F / 255)));
  const DatasetPtr test = cifar10(folder(), false, {.mean = {0.4, 0, 0}, .std = {1, 1, 0.5}});
  EXPECT_TRUE(torch::allclose(all_of(test).features(), torch::zeros({1, 3, 32, 32}), 0, 1e-6));
  EXPECT_EQ(test->classes()[9], "truck");
}

TEST_F(Cifar, ReadsFineAndCoarseLabelsOfCifar100) {
  write("test.bin", cifar_record({19, 99}, 1, 2, 3) + cifar_record({0, 50}, 1, 2, 3));
  EXPECT_TRUE(torch::equal(all_of(cifar100(folder(), false)).target(), torch::tensor({99, 50}, torch::kLong)));
  const DatasetPtr coarse = cifar100(folder(), false, {}, Cifar100Labels::kCoarse);
  EXPECT_TRUE(torch::equal(all_of(coarse).target(), torch::tensor({19, 0}, torch::kLong)));
  EXPECT_TRUE(coarse->classes().empty());
  std::string names;
  for (int i = 0; i < 20; ++i) names += "group " + std::to_string(i) + "\n";
  write("coarse_label_names.txt", names + "\n");
  EXPECT_EQ(cifar100(folder(), false, {}, Cifar100Labels::kCoarse)->classes()[7], "group 7");
}

TEST_F(Cifar, NamesWhatIsWrong) {
  write("test_batch.bin", cifar_record("\1", 0, 0, 0) + cifar_record("\x0A", 0, 0, 0));
  expect_refused([&] { cifar10(folder(), false); }, at("test_batch.bin") + ": offset 3073: label 10: expected 0 to 9");
  write("test_batch.bin", cifar_record("\1", 0, 0, 0) + "x");
  expect_refused([&] { cifar10(folder(), false); },
                 at("test_batch.bin") +
                     ": 3074 bytes: expected a multiple of 3073, 1 label and 3072 pixels a record; is "
                     "it the binary version, and complete?");
  EXPECT_EQ(error_of([&] { cifar10(folder(), true); }).code, ErrorCode::kNotFound);
}

TEST_F(Csv, ReadsFeaturesAndAClass) {
  const fs::path file = write(
      "iris.csv", "\xEF\xBB\xBFlength,width,species\r\n5.1, 3.5 ,setosa\r\n\r\n+7,-3e-1,versicolor\r\n6.3,3.3,setosa");
  const DatasetPtr dataset = csv(file);
  const Batch batch = all_of(dataset);
  EXPECT_TRUE(torch::equal(batch.features(), torch::tensor({{5.1F, 3.5F}, {7.0F, -0.3F}, {6.3F, 3.3F}})));
  EXPECT_TRUE(torch::equal(batch.target(), torch::tensor({0, 1, 0}, torch::kLong)));
  EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"setosa", "versicolor"}));
  const DatasetPtr again = csv(file, {.target = "species", .classes = {"virginica", "versicolor", "setosa"}});
  EXPECT_TRUE(torch::equal(all_of(again).target(), torch::tensor({2, 1, 2}, torch::kLong)));
  EXPECT_TRUE(
      torch::equal(all_of(csv(write("iris.csv.gz", gz("a,b\n1,5\n")))).target(), torch::tensor({5}, torch::kLong)));
}

TEST_F(Csv, TakesWholeNumbersAsClasses) {
  const auto target = [&](const std::string& text) { return all_of(csv(write("a.csv", text))).target(); };
  EXPECT_TRUE(torch::equal(target("x,y\n0,7\n0,2.0\n0,7.0\n"), torch::tensor({7, 2, 7}, torch::kLong)));
  EXPECT_TRUE(torch::equal(target("x,y\n0,1\n0,-1\n0,1\n"), torch::tensor({1, 0, 1}, torch::kLong)));
}

TEST_F(Csv, ReadsRealTargetsAndOtherLayouts) {
  const fs::path file = write("a.csv", "1;2;3\n4;5;6\n");
  const Batch real =
      all_of(csv(file, {.target = 0, .target_kind = CsvTarget::kReal, .header = false, .separator = ';'}));
  EXPECT_TRUE(torch::equal(real.target(), torch::tensor({{1.0F}, {4.0F}})));
  EXPECT_TRUE(torch::equal(real.features(), torch::tensor({{2.0F, 3.0F}, {5.0F, 6.0F}})));
  const Batch none = all_of(csv(file, {.target_kind = CsvTarget::kNone, .header = false, .separator = ';'}));
  EXPECT_EQ(none.tensors.size(), 1U);
  EXPECT_EQ(none.features().sizes(), (torch::IntArrayRef{2, 3}));
  const fs::path gaps = write("gaps.csv", "id,\"x, first\",y\na,,1\nb,NA,0\nc,2,1\n");
  const Batch filled = all_of(csv(gaps, {.ignore = {"id"}, .missing = -1.0F}));
  EXPECT_TRUE(torch::equal(filled.features(), torch::tensor({{-1.0F}, {-1.0F}, {2.0F}})));
}

TEST_F(Csv, ReadsTheDigits) {
  const DatasetPtr dataset = csv("examples/data/digits.csv.gz", {.header = false});
  EXPECT_EQ(dataset->size(), 1797);
  const Batch batch = all_of(dataset);
  EXPECT_EQ(batch.features().sizes(), (torch::IntArrayRef{1797, 64}));
  EXPECT_EQ(batch.features().max().item<float>(), 16);
  EXPECT_EQ(torch::bincount(batch.target()).sum().item<int64_t>(), 1797);
  EXPECT_EQ(batch.target().max().item<int64_t>(), 9);
}

TEST_F(Csv, NamesFileLineAndColumn) {
  const std::string at = this->at("a.csv");
  const auto read = [&](const std::string& text, CsvOptions options = {}) {
    return [this, text, options] { csv(write("a.csv", text), options); };
  };
  expect_refused(read("x,y\n1,2\n1,2,3\n"), at + ":3: 3 columns: expected 2 as in the first row");
  expect_refused(read("x,y\n\"1\n\",2\n"), at + ":2: column \"x\": expected a finite number, got \"1\n\"");
  expect_refused(read("x,y\n1,2\n\n1e999,2\n"), at + ":4: column \"x\": expected a finite number, got \"1e999\"");
  expect_refused(read("x,y\nnan,2\n"),
                 at + ":2: column \"x\": expected a finite number, got \"nan\"; set missing to give "
                      "such cells a value");
  expect_refused(read("x,y\n1,\n"), at + ":2: column \"y\": expected a class, got an empty cell");
  expect_refused(read("x,y\n1,2\n", {.header = false}),
                 at + ":1: column 0: expected a finite number, got \"x\"; if this is the header, set header = true");
  expect_refused(read("1,2\n3,4\n"),
                 at + ":1: the header consists of numbers; set header = false if the file has none");
  expect_refused(read("x,y\n1,cow\n", {.classes = {"cat", "dog"}}),
                 at + ":2: column \"y\": \"cow\" is none of the 2 classes");
  expect_refused(read("x,y\n1,2\n", {.target = "z"}), "csv: target: " + at + " has no column \"z\"; it has x, y");
  expect_refused(read("x,y\n1,2\n", {.target = 2}), "csv: target: column 2 does not exist, " + at + " has 2 columns");
  expect_refused(read("x;y\n1;2\n"), at + ": no column is left for features; is the separator ',' right?");
  expect_refused(read("x,y\n1,\"2\n"), at + ":2: a quoted cell begins here and does not end");
  expect_refused(read("x,y\n\"1\"2,3\n"), at + ":2: expected a separator after a quoted cell, got \"2\"");
  expect_refused(read(""), at + ": the file has no rows");
  expect_refused(read("x,y\n"), at + ": the file has a header and no rows");
}

TEST(CsvRows, SplitsQuotedCellsAndCountsLines) {
  CsvRows rows("a,\"b \"\"c\"\"\",\"d\ne\"\n,\n\"\" ,\t x y \r\nlast,", ',', "text");
  std::vector<std::string_view> cells;
  std::vector<std::vector<std::string>> all;
  std::vector<int64_t> lines;
  while (rows.next(cells)) {
    all.emplace_back(cells.begin(), cells.end());
    lines.push_back(rows.line());
  }
  EXPECT_EQ(all,
            (std::vector<std::vector<std::string>>{{"a", "b \"c\"", "d\ne"}, {"", ""}, {"", "x y"}, {"last", ""}}));
  EXPECT_EQ(lines, (std::vector<int64_t>{1, 3, 4, 5}));
}

TEST(CsvRows, SplitsTabsAndSpaces) {
  std::vector<std::string_view> cells;
  CsvRows tabs("a\t\t\"b\"\n", '\t', "text");
  ASSERT_TRUE(tabs.next(cells));
  EXPECT_EQ(cells, (std::vector<std::string_view>{"a", "", "b"}));
  CsvRows spaces("1 2 \"3 4\"\n", ' ', "text");
  ASSERT_TRUE(spaces.next(cells));
  EXPECT_EQ(cells, (std::vector<std::string_view>{"1", "2", "3 4"}));
}

TEST(NumberOf, AcceptsFiniteNumbersOnly) {
  EXPECT_EQ(number_of("+1.5"), 1.5);
  EXPECT_EQ(number_of("-2e3"), -2000);
  EXPECT_EQ(number_of("1e-999"), 0);
  for (const char* text : {"", "+", "+-1", "nan", "inf", "1e999", "1x", "0x10", "1,5", " 1"})
    EXPECT_FALSE(number_of(text)) << text;
}

TEST_F(ImageFolder, ReadsClassesInTheOrderOfTheirNames) {
  write("dog/b.png", png_bytes(2, 2, 3, "\xFF\x00\x33\xFF\x00\x33\xFF\x00\x33\xFF\x00\x33"s));
  write("dog/deeper/a.PNG", png_bytes(1, 1, 1, "\x66"s));
  write("dog/notes.txt", "no picture");
  write("cat/z.png", png_bytes(1, 2, 4, "\x00\x33\x66\xFF\xFF\xFF\xFF\x00"s));
  write(".cache/x.png", "no picture");
  const DatasetPtr dataset = image_folder(folder(), {.height = 2, .width = 2});
  EXPECT_EQ(dataset->classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(dataset->size(), 3);
  const Batch batch = all_of(dataset);
  EXPECT_TRUE(torch::equal(batch.target(), torch::tensor({0, 1, 1}, torch::kLong)));
  EXPECT_TRUE(torch::allclose(batch.features()[1].mean({1, 2}), torch::tensor({1.0F, 0.0F, 0.2F})));
  EXPECT_TRUE(torch::allclose(batch.features()[2], torch::full({3, 2, 2}, 0.4F)));
  EXPECT_TRUE(torch::allclose(batch.features()[0].select(2, 1).transpose(0, 1),
                              torch::tensor({{0.0F, 0.2F, 0.4F}, {1.0F, 1.0F, 1.0F}})));
  EXPECT_EQ(dataset->rows({}).features().sizes(), (torch::IntArrayRef{0, 3, 2, 2}));
  const DatasetPtr grey =
      image_folder(folder(), {.height = 3, .width = 5, .channels = 1, .normalise = {.mean = {0.4}}});
  EXPECT_TRUE(torch::allclose(grey->rows(Rows{2}).features(), torch::zeros({1, 1, 3, 5}), 0, 1e-6));
}

TEST_F(ImageFolder, NamesWhatIsWrong) {
  EXPECT_EQ(error_of([&] { image_folder(folder() / "none"); }).code, ErrorCode::kNotFound);
  expect_refused([&] { image_folder(folder()); },
                 "image_folder: " + folder().string() + " has no sub-folder; expected one a class, with its images");
  write("cat/notes.txt", "");
  expect_refused(
      [&] { image_folder(folder()); },
      "image_folder: class " + at("cat") + " has no .jpg, .jpeg, .png or .bmp file; remove the folder or add images");
  write("cat/a.png", "no picture");
  const DatasetPtr dataset = image_folder(folder());  // Files are decoded when they are read.
  const Error error = error_of([&] { dataset->rows(Rows{0}); });
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.message.find(at("cat/a.png") + ": cannot be decoded as JPEG, PNG or BMP ("), 0U) << error.message;
  expect_refused([&] { dataset->rows(Rows{1}); }, "image_folder: row 1 does not exist, the data set has 1 rows");
  expect_refused([&] { image_folder(folder(), {.channels = 4}); }, "image_folder: channels: expected 1 or 3, got 4");
}

TEST(ReadImage, DecodesJpeg) {
  // 16 × 8 pixels, the left half (200, 40, 90), the right half (20, 160, 220).
  const torch::Tensor image = read_image("tests/train/data/two_colours.jpg").to(torch::kFloat);
  ASSERT_EQ(image.sizes(), (torch::IntArrayRef{3, 8, 16}));
  const auto half = [&](int64_t from) { return image.narrow(2, from, 8).mean({1, 2}); };
  EXPECT_TRUE(torch::allclose(half(0), torch::tensor({200.0F, 40.0F, 90.0F}), 0, 2));
  EXPECT_TRUE(torch::allclose(half(8), torch::tensor({20.0F, 160.0F, 220.0F}), 0, 2));
  EXPECT_EQ(read_image("tests/train/data/two_colours.jpg", 1).sizes(), (torch::IntArrayRef{1, 8, 16}));
}

TEST(ReadImage, RefusesHuffmanTablesThatOverflow) {
  std::ifstream in("tests/train/data/two_colours.jpg", std::ios::binary);
  const std::string jpeg{std::istreambuf_iterator<char>(in), {}};
  ASSERT_TRUE(decode_image(jpeg, 3));
  const size_t table = jpeg.find("\xFF\xC4");
  ASSERT_NE(table, std::string::npos);
  std::string bad = jpeg;
  for (size_t length = 1; length <= 16; ++length) bad[table + 4 + length] = '\x60';
  for (const std::string& file : {bad, '\xFF' + bad}) {
    const auto image = decode_image(file, 3);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().message, "cannot be decoded as JPEG (bad Huffman table)");
  }
}

TEST(ResizeImage, EqualsPyTorchsInterpolateWithAntialias) {
  const torch::Tensor image = torch::arange(70).mul(37).remainder(256).to(torch::kByte).view({2, 5, 7});
  EXPECT_TRUE(torch::allclose(resize_image(image, 2, 3),
                              torch::tensor({34.7143F, 114.0F, 193.2857F, 40.7143F, 120.0F, 199.2857F, 49.7143F, 129.0F,
                                             208.2857F, 55.7143F, 135.0F, 214.2857F})
                                  .view({2, 2, 3}),
                              0, 1e-3));
  EXPECT_TRUE(torch::allclose(
      resize_image(image, 6, 9)[1][3],
      torch::tensor({22.25F, 46.9167F, 75.6944F, 104.4722F, 133.25F, 162.0278F, 190.8056F, 219.5833F, 244.25F}), 0,
      1e-3));
  EXPECT_TRUE(torch::equal(resize_image(image, 5, 7), image.to(torch::kFloat)));
}

// Damaged files end in an Exception or are read; nothing else may happen.
TEST_F(Readers, SurviveDamagedFiles) {
  std::ifstream in("tests/train/data/two_colours.jpg", std::ios::binary);
  const std::string jpeg{std::istreambuf_iterator<char>(in), {}};
  const std::vector<std::string> seeds{idx_bytes(8, {3, 2}, "abcdef"),
                                       idx_bytes(0x0C, {1, 1}, "abcd"),
                                       gz(idx_bytes(8, {100}, std::string(100, 'x'))),
                                       "x,\"y\"\n1,2\n\"3\",\"4\"\n",
                                       jpeg,
                                       png_bytes(5, 4, 3, std::string(60, 'p'))};
  std::mt19937 random(7);
  int refused = 0;
  for (int turn = 0; turn < 3000; ++turn) {
    std::string bytes = seeds[random() % seeds.size()];
    for (auto changes = random() % 4; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 3 == 0) bytes.resize(random() % (bytes.size() + 1));
    const fs::path file = write("file", bytes);
    for (const auto& read : std::initializer_list<std::function<void()>>{[&] { idx(file); }, [&] { csv(file); },
                                                                         [&] { (void)decode_image(bytes, 3); }}) {
      try {
        read();
      } catch (const Exception& exception) {
        EXPECT_EQ(exception.code(), ErrorCode::kInvalidArgument) << exception.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace volador::train
