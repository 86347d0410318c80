// Counts the words of text files: one task per file, then tasks that add two counts each and start when both are
// available.
// Usage: map_reduce FILE…   Without files it counts three built-in lines.
#include <fmt/format.h>
#include <volador/volador.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

using Counts = std::map<std::string, int>;

Counts count(std::istream& text) {
  Counts counts;
  for (std::string word; text >> word;) {
    std::erase_if(word, [](unsigned char c) { return std::ispunct(c) != 0; });
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (!word.empty()) ++counts[word];
  }
  return counts;
}

Counts count_text(const std::string& text) {
  std::istringstream stream(text);
  return count(stream);
}

Counts count_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + " cannot be read");
  return count(file);
}

Counts add(Counts left, const Counts& right) {
  for (const auto& [word, number] : right) left[word] += number;
  return left;
}

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);

  std::vector<volador::Future<Counts>> counts;
  for (int i = 1; i < argc; ++i) counts.push_back(volador::task<&count_file>(argv[i]).submit());
  if (argc == 1) {
    for (const char* line :
         {"The flying fish leaves the water,", "glides over the waves,", "and the sea keeps the rest."}) {
      counts.push_back(volador::task<&count_text>(line).submit());
    }
  }
  while (counts.size() > 1) {
    std::vector<volador::Future<Counts>> sums;
    for (size_t i = 0; i + 1 < counts.size(); i += 2)
      sums.push_back(volador::task<&add>(counts[i], counts[i + 1]).submit());
    if (counts.size() % 2 == 1) sums.push_back(counts.back());
    counts = std::move(sums);
  }

  const Counts total = counts.front().get();
  std::vector<std::pair<std::string, int>> ranked(total.begin(), total.end());
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (size_t i = 0; i < std::min<size_t>(ranked.size(), 10); ++i)
    fmt::print("{:6}  {}\n", ranked[i].second, ranked[i].first);
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
