#include "runtime/log.h"

#include <gtest/gtest.h>

#include "runtime/paths.h"
#include "tests/temporary_directory.h"

namespace volador {
namespace {

TEST(LogFields, PlainWordsStayAndOthersAreQuoted) {
  EXPECT_EQ(log::quoted_if_needed("abc-1.2"), "abc-1.2");
  EXPECT_EQ(log::quoted_if_needed("a b"), "\"a b\"");
  EXPECT_EQ(log::quoted_if_needed(""), "\"\"");
  const std::string escaped = log::quoted_if_needed("a\"b\n");
  EXPECT_EQ(escaped.find('\n'), std::string::npos);
  EXPECT_EQ(escaped.front(), '"');
}

TEST(Log, LinesGoToTheFileInTheirForm) {
  TemporaryDirectory folder;
  const auto file = folder.path() / "x.log";
  log::configure({.level = log::Level::kInfo, .file = file.string()});
  log::debug("test", "not written");
  log::info("test", "node joined", {{"node", "a b"}, {"cpus", 2}});
  log::configure({});
  const std::string text = read_file_limited(file, 10'000).value();
  EXPECT_NE(text.find("node joined"), std::string::npos) << text;
  EXPECT_NE(text.find("node=\"a b\" cpus=2"), std::string::npos) << text;
  EXPECT_EQ(text.find("not written"), std::string::npos);
}

}  // namespace
}  // namespace volador
