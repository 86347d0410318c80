#include "jobs/sandbox/sandbox.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "jobs/launch/command_check.h"
#include "tests/temporary_directory.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using SandboxWords = std::vector<std::string>;

std::string mount_error(std::string_view text) {
  const Result<Mount> mount = parse_mount(text);
  EXPECT_TRUE(mount || mount.error().code == ErrorCode::kInvalidArgument);
  return mount ? "mounted " + mount->target : mount.error().message;
}

TEST(MountTest, ParsesSourceTargetAndOption) {
  EXPECT_EQ(parse_mount("/data:/mnt/data").value(), (Mount{.source = "/data", .target = "/mnt/data"}));
  EXPECT_EQ(parse_mount("/data:/data:ro").value(), (Mount{.source = "/data", .target = "/data", .read_only = true}));
  EXPECT_EQ(parse_mount("/data:/data:rw").value(), (Mount{.source = "/data", .target = "/data"}));
  EXPECT_EQ(parse_mount("/data:/data:copy").value(),
            (Mount{.source = "/data", .target = "/data", .read_only = true, .copied = true}));
  EXPECT_EQ(parse_mount("//data///x/:/mnt/./y/").value(), (Mount{.source = "/data/x", .target = "/mnt/y"}));
  EXPECT_EQ(parse_mount("/data:sub/./folder/").value(), (Mount{.source = "/data", .target = "sub/folder"}));
  EXPECT_EQ(parse_mount("/:/host:ro").value(), (Mount{.source = "/", .target = "/host", .read_only = true}));
  EXPECT_EQ(parse_mount("/a..b:/..c").value(), (Mount{.source = "/a..b", .target = "/..c"}));
  EXPECT_EQ(parse_mount("/a:/device").value(), (Mount{.source = "/a", .target = "/device"}));
}

TEST(MountTest, RejectsWhatCannotBeMounted) {
  EXPECT_EQ(mount_error("data:/data"),
            "mount \"data:/data\": the source must be an absolute path of the host, got \"data\"");
  EXPECT_THAT(mount_error(":/data"), HasSubstr("the source must be an absolute path of the host, got \"\""));
  for (const std::string target : {".", "./", "././"}) {
    EXPECT_EQ(mount_error("/data:" + target), "mount \"/data:" + target + "\": the target must not be \"" + target +
                                                  "\", the working directory; name a folder in it or an absolute path");
  }
  EXPECT_EQ(mount_error("/data/../etc:/data"),
            "mount \"/data/../etc:/data\": \"/data/../etc\" contains \"..\"; write the path without it");
  for (const std::string target : {"..", "../x", "/x/..", "/x/../y"}) {
    EXPECT_THAT(mount_error("/data:" + target), HasSubstr("contains \"..\"")) << target;
  }
  EXPECT_EQ(mount_error("/data:/data:rx"),
            "mount \"/data:/data:rx\": expected the option ro (read-only), rw or copy (read-only, from a copy on the "
            "node's disk), got \"rx\"");
  EXPECT_THAT(mount_error("/data:/data:"), HasSubstr("got \"\""));
  EXPECT_EQ(mount_error("/data"),
            "mount \"/data\": expected /source:/target or /source:/target:ro; a path cannot contain \":\"");
  EXPECT_THAT(mount_error("/a:/b:ro:x"), HasSubstr("expected /source:/target"));
  EXPECT_THAT(mount_error("/data:"), HasSubstr("the target is empty"));
  EXPECT_THAT(mount_error("/data:/"), HasSubstr("would hide all other files"));
  for (const std::string target : {"/proc", "/proc/1", "/dev", "/dev/shm/x", "//dev/"}) {
    EXPECT_THAT(mount_error("/data:" + target), HasSubstr("in /proc or /dev")) << target;
  }
  EXPECT_THAT(mount_error(std::string_view("/a\0b:/c", 7)), HasSubstr("zero byte"));
}

TEST(BwrapCommandTest, BatchJobOfAUser) {
  const SandboxRequest request{
      .entries = {{"/usr"}, {"/bin", "usr/bin"}, {"/proc"}, {"/tmp"}, {"/dev"}, {"/etc"}, {"/tmp/x"}, {"/device"}},
      .mounts = {{.source = "/data/sets", .target = "/workspace/dataset/a", .read_only = true},
                 {.source = "/jobs/7", .target = "/workspace"},
                 {.source = "/models", .target = "models/private", .source_fd = 9}},
      .files = {{"/job/hostfile", "/run/job7/hostfile"}, {"/etc/hosts", "/run/job7/hosts"}},
      .working_directory = "/workspace",
      .hostname = "server1",
      .shm_bytes = 134'217'728,
      .devices = {"/dev/fuse", "/dev/dri/renderD128"},
      .gpus = std::vector{2, 5},
      .user = SandboxUser{.uid = 3001, .gid = 3002, .groups = {27, 100}},
      .status_fd = 4,
      .command = {"python", "train.py", "--note", "a b"},
  };
  const SandboxWords expected = {"/usr/bin/bwrap",
                                 "--unshare-pid",
                                 "--unshare-ipc",
                                 "--unshare-uts",
                                 "--hostname",
                                 "server1",
                                 "--new-session",
                                 "--json-status-fd",
                                 "4",
                                 "--tmpfs",
                                 "/",
                                 "--symlink",
                                 "usr/bin",
                                 "/bin",
                                 "--ro-bind",
                                 "/device",
                                 "/device",
                                 "--ro-bind",
                                 "/etc",
                                 "/etc",
                                 "--ro-bind",
                                 "/usr",
                                 "/usr",
                                 "--proc",
                                 "/proc",
                                 "--ro-bind-try",
                                 "/proc/sys",
                                 "/proc/sys",
                                 "--dev",
                                 "/dev",
                                 "--dev-bind",
                                 "/dev/fuse",
                                 "/dev/fuse",
                                 "--dir",
                                 "/dev/dri",
                                 "--dev-bind",
                                 "/dev/dri/renderD128",
                                 "/dev/dri/renderD128",
                                 "--dev-bind-try",
                                 "/dev/nvidia2",
                                 "/dev/nvidia2",
                                 "--dev-bind-try",
                                 "/dev/nvidia5",
                                 "/dev/nvidia5",
                                 "--dev-bind-try",
                                 "/dev/nvidiactl",
                                 "/dev/nvidiactl",
                                 "--dev-bind-try",
                                 "/dev/nvidia-uvm",
                                 "/dev/nvidia-uvm",
                                 "--dev-bind-try",
                                 "/dev/nvidia-uvm-tools",
                                 "/dev/nvidia-uvm-tools",
                                 "--setenv",
                                 "CUDA_VISIBLE_DEVICES",
                                 "0,1",
                                 "--perms",
                                 "1777",
                                 "--size",
                                 "134217728",
                                 "--tmpfs",
                                 "/dev/shm",
                                 "--perms",
                                 "1777",
                                 "--tmpfs",
                                 "/tmp",
                                 "--bind",
                                 "/jobs/7",
                                 "/workspace",
                                 "--dir",
                                 "/workspace/dataset",
                                 "--ro-bind",
                                 "/data/sets",
                                 "/workspace/dataset/a",
                                 "--dir",
                                 "/workspace/models",
                                 "--bind-fd",
                                 "9",
                                 "/workspace/models/private",
                                 "--ro-bind",
                                 "/run/job7/hosts",
                                 "/etc/hosts",
                                 "--dir",
                                 "/job",
                                 "--ro-bind",
                                 "/run/job7/hostfile",
                                 "/job/hostfile",
                                 "--remount-ro",
                                 "/",
                                 "--chdir",
                                 "/workspace",
                                 "--",
                                 "/usr/bin/setpriv",
                                 "--reuid",
                                 "3001",
                                 "--regid",
                                 "3002",
                                 "--groups",
                                 "27,100",
                                 "--inh-caps=-all",
                                 "--bounding-set=-all",
                                 "--no-new-privs",
                                 "--",
                                 "python",
                                 "train.py",
                                 "--note",
                                 "a b"};
  EXPECT_EQ(bwrap_command(request), expected);
}

TEST(BwrapCommandTest, TerminalInAUserNamespace) {
  const SandboxRequest request{
      .bwrap = "/opt/bwrap",
      .mounts = {{.source = "/home/u", .target = "/home/u", .read_only = true, .source_fd = 3}},
      .working_directory = "/home/u",
      .gpus = std::vector<int>{},
      .new_user = true,
      .new_pid = false,
      .new_ipc = false,
      .terminal = true,
      .command = {"bash"},
  };
  EXPECT_THAT(bwrap_command(request),
              ElementsAre("/opt/bwrap", "--unshare-user", "--disable-userns", "--unshare-uts", "--cap-drop", "ALL",
                          "--tmpfs", "/", "--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys", "--dev", "/dev",
                          "--setenv", "CUDA_VISIBLE_DEVICES", "", "--perms", "1777", "--size", "4294967296", "--tmpfs",
                          "/dev/shm", "--perms", "1777", "--tmpfs", "/tmp", "--dir", "/home", "--ro-bind-fd", "3",
                          "/home/u", "--remount-ro", "/", "--chdir", "/home/u", "--", "bash"));
}

TEST(BwrapCommandTest, ACallerInAUserNamespaceKeepsCapabilities) {
  const SandboxRequest request{.working_directory = "/",
                               .hostname = "server1",
                               .keep_capabilities = true,
                               .new_pid = false,
                               .new_ipc = false,
                               .new_uts = false,
                               .command = {"true"}};
  EXPECT_THAT(
      bwrap_command(request),
      ElementsAre("/usr/bin/bwrap", "--new-session", "--tmpfs", "/", "--proc", "/proc", "--ro-bind-try", "/proc/sys",
                  "/proc/sys", "--dev", "/dev", "--perms", "1777", "--size", "4294967296", "--tmpfs", "/dev/shm",
                  "--perms", "1777", "--tmpfs", "/tmp", "--remount-ro", "/", "--chdir", "/", "--", "true"));
}

TEST(CheckTargetsTest, RootMountsNothingIntoAWritableMount) {
  SandboxRequest request{
      .mounts = {{.source = "/jobs/7", .target = "/workspace"}, {.source = "/data", .target = "/workspaces"}},
      .files = {{"/etc/hosts", "/x"}},
      .working_directory = "/workspace",
      .user = SandboxUser{.uid = 3001, .gid = 3001}};
  EXPECT_TRUE(check_targets(request));
  request.mounts.push_back({.source = "/data", .target = "data", .read_only = true});
  EXPECT_EQ(check_targets(request).error().message,
            "mounts: the target \"/workspace/data\" is within the writable mount \"/workspace\", which root does not "
            "trust; choose a target outside");
  request.mounts[0].read_only = true;
  EXPECT_TRUE(check_targets(request));
  request.mounts[0].read_only = false;
  request.user.reset();
  EXPECT_FALSE(check_targets(request));
  request.keep_capabilities = true;
  EXPECT_TRUE(check_targets(request));
  request.keep_capabilities = false;
  request.new_user = true;
  EXPECT_TRUE(check_targets(request));
  request.new_user = false;
  request.mounts.pop_back();
  request.files["/workspace/hostfile"] = "/x";
  EXPECT_THAT(check_targets(request).error().message, HasSubstr("\"/workspace/hostfile\""));
}

TEST(CheckTargetsTest, ATargetIsUsedOnce) {
  SandboxRequest request{.mounts = {{.source = "/a", .target = "x"}, {.source = "/b", .target = "/workspace//x/"}},
                         .working_directory = "/workspace"};
  EXPECT_EQ(check_targets(request).error().message,
            "mounts: \"/workspace/x\" is the target of two mounts or files; leave one out");
  request.mounts.pop_back();
  EXPECT_TRUE(check_targets(request));
  request.files["/workspace/x"] = "/c";
  EXPECT_EQ(check_targets(request).error().code, ErrorCode::kInvalidArgument);
}

TEST(FoldersToListTest, AFolderWithAMissingTargetIsListed) {
  const std::set<std::string> host = {"/etc", "/etc/hosts", "/srv", "/srv/a", "/srv/a/b", "/workspace", "/tmp"};
  const auto exists = [&](const std::string& path) { return host.contains(path); };
  SandboxRequest request{.working_directory = "/workspace"};
  EXPECT_THAT(folders_to_list(request, exists), IsEmpty());
  request.files = {{"/etc/hosts", "/x"}, {"/job/hostfile", "/x"}, {"/tmp/new/file", "/x"}};
  EXPECT_THAT(folders_to_list(request, exists), IsEmpty());
  request.files["/etc/mpi/hostfile"] = "/x";
  EXPECT_THAT(folders_to_list(request, exists), ElementsAre("/etc"));
  request.mounts = {{.source = "/x", .target = "/srv/a/b/new"}, {.source = "/x", .target = "/srv/a/b/new/deep"}};
  EXPECT_THAT(folders_to_list(request, exists), ElementsAre("/etc", "/srv", "/srv/a", "/srv/a/b"));
  request.mounts = {{.source = "/x", .target = "new"}};
  EXPECT_THAT(folders_to_list(request, exists), ElementsAre("/etc", "/workspace"));
  request.mounts.push_back({.source = "/x", .target = "/workspace"});
  EXPECT_THAT(folders_to_list(request, exists), ElementsAre("/etc"));
}

struct SandboxRun {
  std::string output;  // Standard output and errors.
  int exit_code = -1;  // A failure of bwrap itself.
};

SandboxRun run_sandbox(const SandboxWords& words) {
  std::string line;
  for (const std::string& word : words) line += shell_quoted(word) + " ";
  SandboxRun run;
  FILE* pipe = ::popen((line + "2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) return run;
  std::array<char, 4096> buffer{};
  while (const size_t read = std::fread(buffer.data(), 1, buffer.size(), pipe)) run.output.append(buffer.data(), read);
  const int status = ::pclose(pipe);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return run;
}

// Adds the entries of a folder, and of the folders in `listed` instead of themselves.
void list_entries(const std::filesystem::path& folder, const SandboxWords& listed, std::vector<RootEntry>& entries) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string path = entry.path().string();
    if (entry.is_symlink()) {
      entries.push_back({path, std::filesystem::read_symlink(entry.path()).string()});
    } else if (std::ranges::find(listed, path) != listed.end()) {
      list_entries(entry.path(), listed, entries);
    } else {
      entries.push_back({path});
    }
  }
}

// Runs commands in real sandboxes. As root, a user without rights runs them.
class BwrapRunTest : public testing::Test {
 protected:
  static constexpr uint32_t kUser = 3001;

  void SetUp() override {
    if (!std::filesystem::exists("/usr/bin/bwrap")) GTEST_SKIP() << "/usr/bin/bwrap is not installed";
    const SandboxRun probe = run_sandbox(
        {"/usr/bin/bwrap", "--unshare-pid", "--unshare-uts", "--ro-bind", "/", "/", "--proc", "/proc", "true"});
    if (probe.exit_code != 0) GTEST_SKIP() << "bwrap cannot make namespaces here: " << probe.output;
    std::filesystem::create_directory(job_);
    std::filesystem::create_directory(data_);
    std::ofstream(data_ / "set.txt") << "numbers\n";
    request_.mounts = {{.source = job_.string(), .target = "/workspace"},
                       {.source = data_.string(), .target = "/sets/a", .read_only = true}};
    request_.working_directory = "/workspace";
    request_.hostname = "server1";
    request_.shm_bytes = 16 << 20;
    if (::geteuid() == 0) {
      request_.user = SandboxUser{.uid = kUser, .gid = kUser};
      for (const auto& folder : {job_, data_}) ASSERT_EQ(::chown(folder.c_str(), kUser, kUser), 0);
    } else {
      request_.new_user = true;
    }
  }

  SandboxRun run(const std::string& code) {
    const auto exists = [](const std::string& path) {
      std::error_code ignored;
      return std::filesystem::exists(path, ignored);
    };
    request_.entries.clear();
    list_entries("/", folders_to_list(request_, exists), request_.entries);
    request_.command = {"/bin/sh", "-c", code};
    EXPECT_TRUE(check_targets(request_));
    return run_sandbox(bwrap_command(request_));
  }

  TemporaryDirectory directory_;
  const std::filesystem::path job_ = directory_.path() / "job";
  const std::filesystem::path data_ = directory_.path() / "data";
  SandboxRequest request_;
};

TEST_F(BwrapRunTest, TheExitCodeOfTheCommandPasses) {
  EXPECT_EQ(run("exit 0").exit_code, 0);
  EXPECT_EQ(run("exit 7").exit_code, 7);
  EXPECT_EQ(run("kill -9 $$").exit_code, 137);
  request_.working_directory = "/none";
  const SandboxRun failed = run("exit 0");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.output, HasSubstr("/none"));
}

TEST_F(BwrapRunTest, AReadOnlyMountCannotBeWritten) {
  const SandboxRun written = run("cat /sets/a/set.txt; echo x > /sets/a/set.txt");
  EXPECT_THAT(written.output, testing::StartsWith("numbers\n"));
  EXPECT_THAT(written.output, HasSubstr("Read-only file system"));
  EXPECT_NE(written.exit_code, 0);
  std::ifstream file(data_ / "set.txt");
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "numbers");
}

TEST_F(BwrapRunTest, FilesInAMountBelongToTheUser) {
  ASSERT_EQ(run("pwd > out.txt").exit_code, 0);
  struct stat made {};
  ASSERT_EQ(::stat((job_ / "out.txt").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, request_.user ? kUser : ::geteuid());
  std::ifstream file(job_ / "out.txt");
  std::string text;
  std::getline(file, text);
  EXPECT_EQ(text, "/workspace");
}

TEST_F(BwrapRunTest, TheHostsFilesAreReadOnly) {
  request_.user.reset();  // Otherwise permissions would refuse before the mounts do.
  for (const std::string folder : {"/", "/usr", "/etc"}) {
    const SandboxRun written = run("echo x > " + folder + "/volador-sandbox-test");
    EXPECT_THAT(written.output, HasSubstr("Read-only file system")) << folder;
  }
}

TEST_F(BwrapRunTest, SharedMemoryHasTheRequestedSize) {
  EXPECT_EQ(run("df -B1 --output=size /dev/shm | tail -n 1 | tr -d ' '; echo x > /dev/shm/f && cat /dev/shm/f").output,
            "16777216\nx\n");
  EXPECT_NE(run("head -c 17M /dev/zero > /dev/shm/f").exit_code, 0);
}

TEST_F(BwrapRunTest, TheHostNameIsOfTheJob) {
  std::array<char, 256> before{};
  ASSERT_EQ(::gethostname(before.data(), before.size()), 0);
  EXPECT_EQ(run("uname -n").output, "server1\n");
  std::array<char, 256> after{};
  ASSERT_EQ(::gethostname(after.data(), after.size()), 0);
  EXPECT_EQ(before, after);
}

TEST_F(BwrapRunTest, OtherProcessesAreNotVisible) {
  EXPECT_EQ(run("echo $$").output, "2\n");
  const SandboxRun counted = run("ls /proc | grep -c '^[0-9]'");
  EXPECT_LE(std::stoi("0" + counted.output), 4) << counted.output;
}

TEST_F(BwrapRunTest, TemporaryFilesEndWithTheJob) {
  const std::string path = "/tmp/volador-sandbox-test-" + std::to_string(::getpid());
  EXPECT_EQ(run("echo x > " + path + " && cat " + path).output, "x\n");
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_EQ(run("ls -A /tmp").output, "");
}

TEST_F(BwrapRunTest, DeviceNodesCannotBeMade) {
  EXPECT_NE(run("mknod /tmp/null c 1 3").exit_code, 0);
  EXPECT_THAT(run("grep CapEff /proc/self/status").output, HasSubstr("0000000000000000"));
  if (::geteuid() != 0) return;
  request_.user.reset();
  const SandboxRun root = run("id -u; mknod /tmp/null c 1 3");
  EXPECT_NE(root.exit_code, 0);
  EXPECT_THAT(root.output, testing::StartsWith("0\n"));
  EXPECT_THAT(root.output, HasSubstr("Operation not permitted"));
}

TEST_F(BwrapRunTest, OnlyGrantedDevicesAreVisible) {
  const std::string device = "/dev/fuse";
  if (!std::filesystem::exists(device)) GTEST_SKIP() << device << " does not exist";
  EXPECT_EQ(run("test -c /dev/null && echo null; test -e " + device + " || echo none").output, "null\nnone\n");
  request_.devices = {device};
  EXPECT_EQ(run("test -c " + device + " && echo granted").output, "granted\n");
}

TEST_F(BwrapRunTest, GpusAreCountedFromZero) {
  request_.gpus = std::vector{7, 9};
  EXPECT_EQ(run("echo \"[$CUDA_VISIBLE_DEVICES]\"").output, "[0,1]\n");
  request_.gpus = std::vector<int>{};
  EXPECT_EQ(run("echo \"[${CUDA_VISIBLE_DEVICES-unset}]\"; ls /dev | grep -c nvidia").output, "[]\n0\n");
}

TEST_F(BwrapRunTest, FilesOfTheJobReplaceTheHosts) {
  std::ofstream(directory_.path() / "hosts") << "127.0.0.1 server1\n";
  std::ofstream(directory_.path() / "hostfile") << "server1 slots=4\n";
  request_.files = {{"/etc/hosts", (directory_.path() / "hosts").string()},
                    {"/job/hostfile", (directory_.path() / "hostfile").string()},
                    {"/etc/volador-mpi/hostfile", (directory_.path() / "hostfile").string()}};
  EXPECT_EQ(run("cat /etc/hosts /job/hostfile /etc/volador-mpi/hostfile; head -c 5 /etc/passwd").output,
            "127.0.0.1 server1\nserver1 slots=4\nserver1 slots=4\nroot:");
  EXPECT_FALSE(std::filesystem::exists("/etc/volador-mpi"));
}

TEST_F(BwrapRunTest, ADescriptorNamesTheSource) {
  const int fd = ::open(data_.c_str(), O_PATH | O_DIRECTORY);
  ASSERT_GE(fd, 0);
  request_.mounts.push_back({.source = "/none", .target = "/sets/b", .read_only = true, .source_fd = fd});
  const SandboxRun read = run("cat /sets/b/set.txt; echo x > /sets/b/set.txt");
  ::close(fd);
  EXPECT_THAT(read.output, testing::StartsWith("numbers\n"));
  EXPECT_THAT(read.output, HasSubstr("Read-only file system"));
}

TEST_F(BwrapRunTest, TheStatusTellsWhetherTheCommandRan) {
  const auto status_of = [&] {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    request_.status_fd = ends[1];
    run("exit 1");
    ::close(ends[1]);
    std::array<char, 4096> buffer{};
    std::string status;
    for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
      status.append(buffer.data(), static_cast<size_t>(n));
    }
    ::close(ends[0]);
    return status;
  };
  const std::string ran = status_of();
  EXPECT_THAT(ran, HasSubstr("\"child-pid\""));
  EXPECT_THAT(ran, HasSubstr("\"exit-code\": 1"));
  request_.mounts.push_back({.source = "/none", .target = "/none"});
  EXPECT_THAT(status_of(), testing::Not(HasSubstr("exit-code")));
}

TEST_F(BwrapRunTest, OnlyABatchJobHasASessionOfItsOwn) {
  const std::string session = "cut -d' ' -f6 /proc/$$/stat";  // 0: the session is of another process namespace.
  EXPECT_NE(run(session).output, "0\n");
  request_.terminal = true;
  EXPECT_EQ(run(session).output, "0\n");
}

TEST_F(BwrapRunTest, AUserNamespaceAllowsNoFurtherOne) {
  request_.user.reset();
  request_.new_user = true;
  request_.mounts.clear();
  request_.working_directory = "/tmp";
  const SandboxRun nested = run("id -u; unshare -U true");
  EXPECT_EQ(nested.output.substr(0, nested.output.find('\n')), std::to_string(::geteuid()));
  EXPECT_NE(nested.exit_code, 0);
}

}  // namespace
}  // namespace volador::jobs
