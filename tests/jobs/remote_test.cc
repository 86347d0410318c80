#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/rank_process.h"
#include "jobs/remote/remote_commands.h"
#include "jobs/remote/rsh_frames.h"
#include "jobs/remote/rsh_server.h"
#include "jobs/remote/ssh_arguments.h"
#include "runtime/net/socket.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"

namespace volador::jobs {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

const std::vector<Peer> kPeers = {{.name = "server1", .node = "west", .address = "10.0.0.1"},
                                  {.name = "server2", .node = "east", .address = "10.0.0.2"}};

TEST(SshArgumentsTest, OptionsOfLaunchersAreSkipped) {
  const std::vector<std::pair<std::vector<std::string>, SshArguments>> cases = {
      {{"server1", "hostname"}, {"server1", "hostname", true}},
      {{"-x", "server2", "PATH=/a:$PATH", ";", "orted", "-mca", "ess"},
       {"server2", "PATH=/a:$PATH ; orted -mca ess", true}},
      {{"-o", "PasswordAuthentication=no", "server1", "hostname -I"}, {"server1", "hostname -I", true}},
      {{"-2", "-a", "-x", "-lroot", "server2", "a b"}, {"server2", "a b", true}},
      {{"-p22", "-i", "key", "-F", "file", "-oA=b", "-qnT", "root@10.0.0.2", "true"}, {"10.0.0.2", "true", false}},
      {{"-vvl", "root", "--", "server1", "ls", "-l"}, {"server1", "ls -l", true}},
      // rsh and ssh also take options behind the host; those of the command stay.
      {{"server1", "-l", "root", "-n", "ls", "-n"}, {"server1", "ls -n", false}},
      {{"server1", "--", "-weird"}, {"server1", "-weird", true}},
  };
  for (const auto& [words, expected] : cases) {
    const auto parsed = parse_ssh_arguments(words);
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->host, expected.host);
    EXPECT_EQ(parsed->command_line, expected.command_line);
    EXPECT_EQ(parsed->input, expected.input);
  }
}

TEST(SshArgumentsTest, WhatRunsNoCommandIsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "expected a host"},
      {{"-V"}, "-V runs no command"},
      {{"server1"}, "expected a command for server1"},
      {{"server1", " "}, "expected a command for server1"},
      {{"root@", "ls"}, "\"root@\" has no host"},
      {{"-p"}, "-p needs a value"},
      {{"-N", "-L", "80:a:80", "server1"}, "-N runs no command"},
      {{"-L", "80:a:80", "server1"}, "-L forwards connections"},
      {{"-f", "server1", "ls"}, "write & behind the command"},
      {{"-s", "server1", "sftp"}, "subsystem"},
  };
  for (const auto& [words, message] : cases) {
    const auto parsed = parse_ssh_arguments(words);
    ASSERT_FALSE(parsed) << parsed->command_line;
    EXPECT_THAT(parsed.error().message, HasSubstr(message));
  }
}

TEST(SshArgumentsTest, ANodeIsFoundByEachOfItsNames) {
  EXPECT_EQ(find_peer(kPeers, 0, "server2"), 1);
  EXPECT_EQ(find_peer(kPeers, 0, "SERVER2"), 1);
  EXPECT_EQ(find_peer(kPeers, 1, "west"), 0);
  EXPECT_EQ(find_peer(kPeers, 0, "10.0.0.2"), 1);
  EXPECT_EQ(find_peer(kPeers, 1, "localhost"), 1);
  EXPECT_EQ(find_peer(kPeers, 0, "server3"), std::nullopt);
  EXPECT_EQ(find_peer(kPeers, 0, ""), std::nullopt);
  std::vector<Peer> shared = kPeers;
  shared[1].address = shared[0].address;
  EXPECT_EQ(find_peer(shared, 0, "10.0.0.1"), std::nullopt);
  shared[1].node = shared[0].node;  // Ranks of one node.
  EXPECT_EQ(find_peer(shared, 0, "10.0.0.1"), 0);
  EXPECT_EQ(find_peer(shared, 1, "10.0.0.1"), 1);
  EXPECT_EQ(find_peer(shared, 1, "west"), 1);
  EXPECT_EQ(find_peer(shared, 1, "server1"), 0);
  EXPECT_EQ(list_of_peers(kPeers), "server1 (west, 10.0.0.1), server2 (east, 10.0.0.2)");
}

TEST(SshArgumentsTest, HostsHaveTheNamesOfTheNodes) {
  EXPECT_EQ(hosts_file("127.0.0.1 localhost", kPeers, "job-7"),
            "127.0.0.1 localhost\n10.0.0.1 server1 job-7-0\n10.0.0.2 server2 job-7-1\n");
  EXPECT_EQ(hosts_file("", {{.name = "server1", .node = "west", .address = ""}}, "job-7"), "");
}

TEST(RshFramesTest, FramesAreFoundInAnyPieces) {
  const std::vector<RshFrame> frames = {{RshFrameKind::kStart, std::string("a\0b", 3)},
                                        {RshFrameKind::kInputEnd, ""},
                                        {RshFrameKind::kOutput, std::string(300'000, 'x')}};
  std::string bytes;
  for (const RshFrame& frame : frames) bytes += rsh_frame(frame.kind, frame.content);
  for (const size_t piece : {size_t{1}, size_t{7}, size_t{65'536}, bytes.size()}) {
    RshFrameReader reader;
    std::vector<RshFrame> found;
    for (size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::string_view(bytes).substr(at, piece));
      while (auto frame = *reader.next()) found.push_back(std::move(*frame));
    }
    EXPECT_EQ(found, frames) << piece;
  }
}

TEST(RshFramesTest, GarbageIsRefused) {
  for (const std::string& bytes :
       {std::string(5, '\0'), std::string("\xff\xff\xff\xff\x05", 5), std::string("GET / HTTP")}) {
    RshFrameReader reader;
    reader.add(bytes);
    EXPECT_FALSE(reader.next()) << bytes;
  }
}

// Runs commands in this process instead of on another rank.
class RunHere final : public RemoteRun {
 public:
  RunHere(RemoteCommands& commands, RemoteCommand command) : commands_(commands), command_(std::move(command)) {}
  void start() override {
    if (auto started = commands_.start(command_); !started) throw Exception(std::move(started).error());
  }
  std::vector<RemoteEvent> next() override {
    std::promise<std::vector<RemoteEvent>> given;
    commands_.take(command_.id, [&](std::vector<RemoteEvent> events) { given.set_value(std::move(events)); });
    auto events = given.get_future().get();
    if (events.empty()) throw Exception(Error{ErrorCode::kCancelled, "it was ended"});
    return events;
  }
  void input(std::string bytes, bool last) override {
    std::promise<void> taken;
    commands_.input(command_.id, std::move(bytes), last, [&] { taken.set_value(); });
    taken.get_future().get();
  }
  void send(int signal) override { commands_.send(command_.id, signal); }
  void abandon() override { commands_.abandon(command_.id); }

 private:
  RemoteCommands& commands_;
  const RemoteCommand command_;
};

class RshServerTest : public testing::Test {
 protected:
  struct Answer {
    std::string out, err, unknown;
    std::optional<int> code;
  };
  // A client that writes what the test says.
  struct Client {
    net::UniqueFd socket;
    RshFrameReader frames;

    void send(RshFrameKind kind, std::string_view content) const {
      const std::string bytes = rsh_frame(kind, content);
      ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    }
    std::optional<RshFrame> read() {
      std::array<char, 65'536> buffer;
      while (true) {
        auto frame = frames.next();
        if (!frame) return std::nullopt;
        if (*frame) return std::move(*frame);
        const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
        if (got <= 0) return std::nullopt;
        frames.add({buffer.data(), static_cast<size_t>(got)});
      }
    }
    Answer read_all() {
      Answer answer;
      while (const auto frame = read()) {
        if (frame->kind == RshFrameKind::kOutput) answer.out += frame->content;
        if (frame->kind == RshFrameKind::kError) answer.err += frame->content;
        if (frame->kind == RshFrameKind::kUnknown) answer.unknown = frame->content;
        if (frame->kind == RshFrameKind::kExit) answer.code = std::stoi(frame->content);
      }
      return answer;
    }
  };

  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "rsh-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    surroundings_ = {.job = "job-1",
                     .rank = 0,
                     .folder = folder_,
                     .directory = folder_,
                     .environment = environment_of_rank({{"WORD", "of the rank"}})};
    commands_.emplace(surroundings_);
    auto server = RshServer::create(folder_, kPeers, 0, [this](size_t rank, const std::string& line, bool input) {
      return std::make_unique<RunHere>(
          *commands_,
          RemoteCommand{
              .id = std::to_string(++count_) + "." + std::to_string(rank), .command_line = line, .input = input});
    });
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  void TearDown() override {
    server_.reset();
    commands_.reset();
    fs::remove_all(folder_);
  }
  Client connect() const {
    Client client{.socket = net::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), .frames = {}};
    const auto address = net::unix_address((folder_ / kRshSocket).string());
    EXPECT_EQ(::connect(client.socket.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->length), 0);
    return client;
  }
  Client start(const std::string& host, const std::string& line, bool input = false) const {
    Client client = connect();
    client.send(RshFrameKind::kStart, to_bytes(RshStart{.host = host, .command_line = line, .input = input}));
    return client;
  }

  fs::path folder_;
  RankSurroundings surroundings_;
  std::optional<RemoteCommands> commands_;
  std::atomic<int> count_{0};
  std::unique_ptr<RshServer> server_;
};

TEST_F(RshServerTest, OutputErrorsAndExitCodeComeBack) {
  const Answer answer = start("server2", "echo \"$WORD\"; pwd; echo err >&2; exit 7").read_all();
  EXPECT_EQ(answer.out, "of the rank\n" + fs::canonical(folder_).string() + "\n");
  EXPECT_EQ(answer.err, "err\n");
  EXPECT_EQ(answer.code, 7);
  EXPECT_EQ(start("east", "kill -9 $$").read_all().code, 137);
}

TEST_F(RshServerTest, InputArrivesInOrderAndIsConfirmed) {
  Client client = start("server2", "wc -c; exit 3", true);
  const std::string piece(100'000, 'x');
  size_t confirmed = 0;
  for (int i = 0; i < 20; ++i) {
    client.send(RshFrameKind::kInput, piece);
    while (confirmed < static_cast<size_t>(i) * piece.size()) {
      const auto frame = client.read();
      ASSERT_TRUE(frame && frame->kind == RshFrameKind::kTaken);
      confirmed += std::stoul(frame->content);
    }
  }
  client.send(RshFrameKind::kInputEnd, "");
  const Answer answer = client.read_all();
  EXPECT_EQ(answer.out, "2000000\n");
  EXPECT_EQ(answer.code, 3);
}

TEST_F(RshServerTest, InputThatNobodyReadsIsDropped) {
  ASSERT_EQ(::mkfifo((folder_ / "wait").c_str(), 0600), 0);
  Client client = start("server2", "exec <&-; echo closed; : < wait; exit 4", true);
  client.send(RshFrameKind::kInput, std::string(200'000, 'x'));
  client.send(RshFrameKind::kInputEnd, "");
  const net::UniqueFd fifo(::open((folder_ / "wait").c_str(), O_WRONLY | O_CLOEXEC));
  const Answer answer = client.read_all();
  EXPECT_EQ(answer.out, "closed\n");
  EXPECT_EQ(answer.code, 4);
}

TEST_F(RshServerTest, ASignalReachesTheCommand) {
  Client client = start("server1", "trap 'echo got; exit 5' TERM; echo up; sleep 1000 & wait");
  const auto up = client.read();
  ASSERT_TRUE(up);
  EXPECT_EQ(up->content, "up\n");
  client.send(RshFrameKind::kSignal, std::to_string(SIGTERM));
  const Answer answer = client.read_all();
  EXPECT_EQ(answer.out, "got\n");
  EXPECT_EQ(answer.code, 5);
}

TEST_F(RshServerTest, ACommandEndsWithItsClient) {
  ASSERT_EQ(::mkfifo((folder_ / "end").c_str(), 0600), 0);
  Client client = start("server2", "trap 'echo ended > end; exit' TERM; echo up; sleep 1000 & wait");
  ASSERT_TRUE(client.read());
  client.socket.reset();
  const net::UniqueFd fifo(::open((folder_ / "end").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 16> word{};
  EXPECT_EQ(::read(fifo.get(), word.data(), word.size()), 6);
}

TEST_F(RshServerTest, AnUnknownHostIsAnsweredWithTheNodes) {
  const Answer answer = start("server9", "true").read_all();
  EXPECT_EQ(answer.unknown, list_of_peers(kPeers));
  EXPECT_EQ(answer.code, std::nullopt);
}

TEST_F(RshServerTest, GarbageEndsOnlyItsConnection) {
  Client client = connect();
  ASSERT_GT(::send(client.socket.get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 0);
  EXPECT_FALSE(client.read());
  EXPECT_EQ(start("server2", "exit 0").read_all().code, 0);
}

TEST_F(RshServerTest, MuchOutputWaitsForItsReader) {
  const Answer answer = start("server2", "head -c 30000000 /dev/zero").read_all();
  EXPECT_EQ(answer.out.size(), 30'000'000U);
  // This one has no reader; the end of the server ends it.
  Client silent = start("server2", "yes");
  ASSERT_TRUE(silent.read());
  server_.reset();
}

TEST_F(RshServerTest, AProcessInTheBackgroundDoesNotHoldTheCommand) {
  const Answer answer = start("server2", "sleep 1000 & echo $!").read_all();
  EXPECT_EQ(answer.code, 0);
  const int left = std::stoi(answer.out);
  EXPECT_EQ(::kill(left, SIGKILL), 0);
  EXPECT_EQ(start("server2", "yes & exit 6").read_all().code, 6);  // SIGPIPE ends it.
}

TEST_F(RshServerTest, TheFolderOfTheCallerStandsForThatOfTheRank) {
  RunHere run(*commands_,
              {.id = "a", .command_line = "echo /far/job-1/code /far/job-1", .input = false, .folder = "/far/job-1"});
  run.start();
  const auto events = run.next();
  EXPECT_EQ(events.front().bytes.data, fmt::format("{0}/code {0}\n", folder_.string()));
}

TEST_F(RshServerTest, AnEndingRankStartsNothing) {
  commands_->end();
  const Answer answer = start("server2", "true").read_all();
  EXPECT_EQ(answer.code, 255);
  EXPECT_EQ(answer.err, "volador: server2 (node east): the rank is ending and starts no further command\n");
}

}  // namespace
}  // namespace volador::jobs
