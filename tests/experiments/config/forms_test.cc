#include "experiments/config/forms.h"

#include <gtest/gtest.h>

namespace volador::experiments {
namespace {

TEST(MemoryBytes, ReadsPowersOf1024) {
  EXPECT_EQ(memory_bytes("1"), 1);
  EXPECT_EQ(memory_bytes("0"), 0);
  EXPECT_EQ(memory_bytes("12 b"), 12);
  EXPECT_EQ(memory_bytes("1k"), 1024);
  EXPECT_EQ(memory_bytes("1 KiB"), 1024);
  EXPECT_EQ(memory_bytes("2Mb"), 2 << 20);
  EXPECT_EQ(memory_bytes("1.5G"), 1'610'612'736);
  EXPECT_EQ(memory_bytes(".5t"), int64_t{1} << 39);
  EXPECT_EQ(memory_bytes("1p"), int64_t{1} << 50);
  EXPECT_EQ(memory_bytes("1.9"), 1) << "a fraction of a byte is dropped";
}

TEST(MemoryBytes, RefusesOtherTexts) {
  for (const char* text : {"", " ", "giga", "1.gb", "1 gi", "1 i", "1  g", "-1", "1g ", "1e3", "0x10", "1..5g", "1.5.g",
                           "8192p", "99999999999999999999", "k"})
    EXPECT_EQ(memory_bytes(text), std::nullopt) << text;
}

TEST(DeviceText, HasTwoPathsAndAMode) {
  const auto device = device_of("/dev/a:/dev/b:rw");
  ASSERT_TRUE(device.has_value());
  EXPECT_EQ(device->host_path, "/dev/a");
  EXPECT_EQ(device->container_path, "/dev/b");
  EXPECT_EQ(device->mode, "rw");
  EXPECT_EQ(device_of("/a:/b")->mode, "mrw");
  EXPECT_EQ(device_of("/a:/b:")->mode, "mrw");
  for (const char* text : {"", "/a", "a:/b", "/a:b", "/a:/b:x", "/a:/b:rw:m"})
    EXPECT_FALSE(device_of(text).has_value()) << text;
}

TEST(TrialClass, IsOneWordOrTheEndOfALaunchCommand) {
  EXPECT_EQ(trial_class_of({"model_def:MyTrial"}), "model_def:MyTrial");
  EXPECT_EQ(trial_class_of({"a.b.c:T"}), "a.b.c:T");
  EXPECT_EQ(trial_class_of({"python3 -m determined.launch.torch_distributed model_def:MyTrial"}), "model_def:MyTrial");
  EXPECT_EQ(trial_class_of({"python3", "-m", "determined.launch.horovod", "model_def:MyTrial"}), "model_def:MyTrial");
  for (const char* command : {"", "./hello.sh", "python3 train.py", "echo a:B", "a:", ":B", "a:B:C", "a b:C",
                              "python3 -m determined.launch.torch_distributed train.py"})
    EXPECT_EQ(trial_class_of({command}), std::nullopt) << command;
}

TEST(Variables, AreNamesWithValues) {
  EXPECT_EQ(variable_name("A=1"), "A");
  EXPECT_EQ(variable_name("A="), "A");
  EXPECT_EQ(variable_name("A=b=c"), "A");
  for (const char* text : {"", "A", "=1", "A B=1", "A\n=1"}) EXPECT_EQ(variable_name(text), std::nullopt) << text;
}

TEST(Variables, SayThatTheyAreSecretByTheirNames) {
  for (const char* name : {"AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "DB_PASSWORD", "wandb_api_key", "KEY", "SSH_KEY"})
    EXPECT_TRUE(names_secret(name)) << name;
  for (const char* name : {"PATH", "NCCL_DEBUG", "KEYBOARD", "MONKEY", "PASSES"})
    EXPECT_FALSE(names_secret(name)) << name;
}

TEST(Paths, StayInsideTheirFolder) {
  EXPECT_TRUE(is_inside("a/b", "/tmp"));
  EXPECT_TRUE(is_inside("/tmp/a", "/tmp/"));
  EXPECT_TRUE(is_inside(".", "/tmp"));
  EXPECT_TRUE(is_inside("..a", "/tmp"));
  EXPECT_FALSE(is_inside("/tmp2", "/tmp"));
  EXPECT_FALSE(is_inside("..", "/tmp"));
  EXPECT_TRUE(has_parent_component("a/../b"));
  EXPECT_FALSE(has_parent_component("a/.../b"));
}

}  // namespace
}  // namespace volador::experiments
