#include "dashboard/provider_pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/security/sign_on_service.h"

namespace volador::dashboard {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ProviderPages, EscapeTheTextsOfOthers) {
  const std::string page = failed_page("<script>alert(\"1\")</script> & 'x'", "en");
  EXPECT_THAT(page, Not(HasSubstr("<script>")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt; &amp; &#39;x&#39;"));
  const std::string asked =
      approval_page({.user = "<b>", .user_code = "<i>", .device = "<u>", .approval = "\"><script>"}, "");
  for (const char* tag : {"<b>", "<i>", "<u>", "<script>"}) EXPECT_THAT(asked, Not(HasSubstr(tag)));
}

TEST(ProviderPages, AreInTheLanguageOfTheBrowser) {
  EXPECT_THAT(failed_page("why", "zh-CN,zh;q=0.9"), HasSubstr("<html lang=\"zh\">"));
  EXPECT_THAT(failed_page("why", "de,zh;q=0.9"), HasSubstr("<html lang=\"en\">"));
  EXPECT_THAT(approved_page("mei", "en"), HasSubstr("It acts for the user mei."));
  EXPECT_THAT(approval_page({.user = "mei", .user_code = "BCDF-GHJK", .device = "", .approval = "s"}, "en"),
              Not(HasSubstr("It runs at")));
}

TEST(ProviderPages, ASignInLeadsToThePageOnly) {
  for (const char* next : {"/", "/#", "/#/jobs?state=running"}) EXPECT_TRUE(security::check_next(next)) << next;
  for (const char* next : {"", "jobs", "//evil.example.org", "/\\evil.example.org", "/#\\x", "/jobs", "/# x",
                           "/#\r\nX: y", "https://evil.example.org", "javascript:alert(1)"})
    EXPECT_FALSE(security::check_next(next)) << next;
  EXPECT_FALSE(security::check_next("/#" + std::string(3000, 'a')));
}

}  // namespace
}  // namespace volador::dashboard
