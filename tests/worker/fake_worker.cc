// A worker process without a head, to be killed by a test: starts the given number of hosts, writes their process ids
// and waits. fake_worker FOLDER PROGRAM COUNT
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/worker/agent_harness.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::filesystem::path folder = argv[1];
  volador::worker::testing::AgentHarness node(folder, argv[2]);
  node.join();
  std::string pids;
  for (int i = 0; i < std::atoi(argv[3]); ++i) {
    const auto ready = node.wait_ready(node.start({}));
    if (!ready) return 3;
    pids += std::to_string(ready->pid()) + "\n";
  }
  const std::string part = (folder / "pids.part").string();
  FILE* out = std::fopen(part.c_str(), "w");
  std::fputs(pids.c_str(), out);
  std::fclose(out);
  std::filesystem::rename(part, folder / "pids");
  while (true) pause();
}
