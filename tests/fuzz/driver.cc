// usage: fuzz_X [--seconds=2] [--seed=N] [file…]     Files are run unchanged, to reproduce a finding.
#include "tests/fuzz/driver.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string_view>

namespace {

constexpr size_t kInputBytesMax = 1 << 16;
constexpr size_t kIterationsMax = 2'000'000;

std::string g_input;  // Current input: written to a file if the parser aborts.

void run(std::string input) {
  g_input = std::move(input);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(g_input.data()), g_input.size());
}

extern "C" void on_abort(int) {
  std::FILE* file = std::fopen("fuzz-finding.bin", "wb");
  if (file != nullptr) {
    std::fwrite(g_input.data(), 1, g_input.size(), file);
    std::fclose(file);
    std::fputs("fuzz: the input is in fuzz-finding.bin\n", stderr);
  }
  std::signal(SIGABRT, SIG_DFL);
}

std::string mutate(std::string input, const std::vector<std::string>& corpus, std::mt19937_64& random) {
  const auto below = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  for (size_t changes = 1 + below(6); changes > 0; --changes) {
    const size_t at = input.empty() ? 0 : below(input.size());
    switch (below(8)) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!input.empty()) input[at] = static_cast<char>(random());
        break;
      case 2:
        input.insert(at, 1 + below(16), static_cast<char>(random()));
        break;
      case 3:
        if (!input.empty()) input.erase(at, 1 + below(16));
        break;
      case 4:
        input.resize(at);
        break;
      case 5: {  // Boundary values of lengths and counts.
        static constexpr uint32_t kEdges[] = {0,      1,      0x7f,      0x80,       0xff,
                                              0x7fff, 0xffff, 0x4000000, 0x7fffffff, 0xffffffff};
        const uint32_t edge = kEdges[below(std::size(kEdges))];
        const size_t width = size_t{1} << below(3);
        if (input.size() >= at + width) std::memcpy(input.data() + at, &edge, width);
        break;
      }
      case 6: {
        const std::string& other = corpus[below(corpus.size())];
        if (!other.empty()) input.insert(at, other, below(other.size()), std::string::npos);
        break;
      }
      default:
        if (!input.empty()) input += input.substr(at);
        break;
    }
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 2;
  uint64_t seed = 1;
  std::signal(SIGABRT, on_abort);
  bool replayed = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--seconds=")) {
      seconds = std::strtod(argv[i] + 10, nullptr);
    } else if (argument.starts_with("--seed=")) {
      seed = std::strtoull(argv[i] + 7, nullptr, 10);
    } else {
      std::ifstream file(argv[i], std::ios::binary);
      run(std::string(std::istreambuf_iterator<char>(file), {}));
      replayed = true;
    }
  }
  if (replayed) return 0;

  const std::vector<std::string> corpus = volador::fuzz::seeds();
  for (const auto& input : corpus) run(input);
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  size_t iterations = 0;
  for (; iterations < kIterationsMax && std::chrono::steady_clock::now() < end; ++iterations) {
    run(mutate(corpus[static_cast<size_t>(random() % corpus.size())], corpus, random));
  }
  std::printf("fuzz: seed %llu, %zu seeds, %zu mutations\n", static_cast<unsigned long long>(seed), corpus.size(),
              iterations);
  return 0;
}
