// Programs that Python's torch.export wrote. tests/train/data/exported_program.pt2 is the result of
//   net = Sequential(Linear(3, 4), Tanh(), BatchNorm1d(4), Dropout(0.5), Linear(4, 2))
//   torch.export.export(net, (torch.zeros(2, 3),), dynamic_shapes=({0: torch.export.Dim("rows", min=1)},))
// without the stack_trace of its nodes.
#include "train/trial/exported_program.h"

#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>

#include "runtime/result.h"
#include "tests/train/refusals.h"
#include "train/optim/state_dict.h"
#include "train/trial/script_model.h"

namespace volador::train {
namespace {

constexpr const char* kProgram = "tests/train/data/exported_program.pt2";

class ExportedProgram : public testing::Test {
 protected:
  void SetUp() override {
    torch::set_num_threads(1);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // The program with records that `change` has changed; an empty one is left out.
  std::filesystem::path changed(const std::function<void(const std::string& name, std::string& record)>& change) const {
    const auto file = folder_ / "changed.pt2";
    caffe2::serialize::PyTorchStreamReader reader(kProgram);
    caffe2::serialize::PyTorchStreamWriter writer(file.string());
    for (const std::string& name : reader.getAllRecords()) {
      if (name.starts_with(".data/") || name == "version") continue;  // The writer's own.
      auto [data, size] = reader.getRecord(name);
      std::string record(static_cast<const char*>(data.get()), size);
      change(name, record);
      if (!record.empty()) writer.writeRecord(name, record.data(), record.size());
    }
    writer.writeEndOfFile();
    return file;
  }
  std::filesystem::path replaced(const std::string& from, const std::string& to) const {
    return changed([&](const std::string&, std::string& record) {
      for (size_t at = record.find(from); at != std::string::npos; at = record.find(from, at + to.size()))
        record.replace(at, from.size(), to);
    });
  }
  void expect_message(const std::filesystem::path& file, const std::string& text) const {
    const Error error = error_of([&] { load_script_model(file); });
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.message, testing::HasSubstr(text));
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / fmt::format("volador_exported_program_{}", ::getpid());
};

TEST_F(ExportedProgram, TrainsAsTheSameLayersInCpp) {
  ScriptModel program = load_script_model(kProgram);
  torch::nn::Sequential layers(torch::nn::Linear(3, 4), torch::nn::Tanh(), torch::nn::BatchNorm1d(4),
                               torch::nn::Dropout(0.5), torch::nn::Linear(4, 2));
  load_module_state(*layers, module_state(*program));
  torch::optim::SGD program_steps(program->parameters(), 0.1), layer_steps(layers->parameters(), 0.1);
  for (int step = 0; step < 5; ++step) {
    const torch::Tensor x = torch::randn({6, 3}, at::make_generator<at::CPUGeneratorImpl>(step));
    const auto loss_of = [&](auto& model, torch::optim::Optimizer& optimizer) {
      torch::manual_seed(step);  // Dropout changes it.
      optimizer.zero_grad();
      torch::Tensor loss = model->forward(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss.template item<float>();
    };
    EXPECT_EQ(loss_of(program, program_steps), loss_of(layers, layer_steps)) << step;
  }
  EXPECT_TRUE(to_bytes(module_state(*program)) == to_bytes(module_state(*layers)));
}

TEST_F(ExportedProgram, FollowsTheModeOfTheModel) {
  ScriptModel program = load_script_model(kProgram);
  EXPECT_TRUE(program->is_training());
  const torch::Tensor x = torch::ones({3, 3});
  program->forward(x);
  EXPECT_EQ(program->named_buffers()["2.num_batches_tracked"].item<int64_t>(), 1);
  program->eval();
  const std::string before = to_bytes(module_state(*program));
  EXPECT_TRUE(program->forward(x).equal(program->forward(x)));
  EXPECT_TRUE(to_bytes(module_state(*program)) == before);
  EXPECT_EQ(program->forward(torch::ones({1, 3})).size(0), 1);
  program->save_script(folder_ / "script.pt");
  EXPECT_TRUE(load_script_model(folder_ / "script.pt")->forward(x).equal(program->forward(x)));
}

TEST_F(ExportedProgram, ConstructWithoutCounterpartIsRefusedByName) {
  EXPECT_TRUE(is_exported_program(kProgram));
  expect_message(replaced("torch.ops.aten.tanh.default", "torch.ops.higher_order.cond"),
                 "has the operation torch.ops.higher_order.cond, which cannot be translated to TorchScript; save the "
                 "model by torch.jit.script(model).save(…) instead");
  expect_message(replaced("torch.ops.aten.tanh.default", "torch.ops.own.layer.default"), "the operation own::layer");
  expect_message(replaced("\"use_pickle\": false", "\"use_pickle\": true"), "a tensor of a subclass, 0.weight");
  expect_message(replaced("\"user_output\"", "\"buffer_mutation\""), "run_decompositions()");
  expect_message(changed([](const std::string& name, std::string& record) {
                   if (name == "models/model.json") record.clear();
                 }),
                 "the file has no graph, as one that AOTInductor has compiled");
}

TEST_F(ExportedProgram, DamageIsRefused) {
  expect_message(replaced("\"outputs\": [{\"as_tensor\": {\"name\": \"linear\"}}]",
                          "\"outputs\": [{\"as_tensor\": {\"name\": \"other\"}}]"),
                 "linear is used before it is computed");
  expect_message(replaced("\"target\"", "\"aim\""), "an entry \"target\" is missing");
  expect_message(replaced("weight_0", "weight_1"), "tensor 0.weight does not fit into 16 bytes");
  expect_message(changed([](const std::string& name, std::string& record) {
                   if (name == "data/weights/weight_0") record.resize(8);
                 }),
                 "tensor 0.weight does not fit into 8 bytes");
  expect_message(replaced("{\"graph_module\"", "{\"graph_module"), "models/model.json");
  // Whatever a byte of the graph becomes, the program is loaded or refused.
  size_t size = 0;
  changed([&](const std::string& name, std::string& record) {
    if (name == "models/model.json") size = record.size();
  });
  for (size_t at = 0; at < size; at += 101) {
    const auto file = changed([&](const std::string& name, std::string& record) {
      if (name == "models/model.json") record[at] = record[at] == '1' ? '9' : '1';
    });
    const ErrorCode code = error_of([&] { load_script_model(file); }).code;
    EXPECT_TRUE(code == ErrorCode::kInvalidArgument || code == ErrorCode::kInternal) << at;  // kInternal: it loads.
  }
}

}  // namespace
}  // namespace volador::train
