#include "dashboard/provider_pages.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::dashboard {
namespace {

struct PageWords {
  std::string_view language, failed, back, ask_title, ask, ask_device, warning, approve, done_title, done;
};

constexpr PageWords kEnglishWords{
    .language = "en",
    .failed = "You are not signed in",
    .back = "Back to the sign-in",
    .ask_title = "Sign in a command line?",
    .ask = "A command line asks to act for the user {} on this cluster. Its terminal shows this code:",
    .ask_device = "It runs at {}.",
    .warning = "Approve it only if you have just started volador login yourself and the codes are the same.",
    .approve = "Approve",
    .done_title = "The command line is signed in",
    .done = "It acts for the user {}. You can close this page."};
constexpr PageWords kChineseWords{.language = "zh",
                                  .failed = "您没有登录",
                                  .back = "返回登录",
                                  .ask_title = "让命令行登录？",
                                  .ask = "一个命令行请求在此集群上以用户 {} 的身份操作。它的终端显示此代码：",
                                  .ask_device = "它运行于 {}。",
                                  .warning = "只有在您刚刚自己启动了 volador login 并且代码相同时才批准。",
                                  .approve = "批准",
                                  .done_title = "命令行已登录",
                                  .done = "它以用户 {} 的身份操作。您可以关闭此页。"};

// The first language of the header decides.
const PageWords& words_for(std::string_view accept_language) {
  return accept_language.starts_with("zh") ? kChineseWords : kEnglishWords;
}

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string filled(std::string_view text, std::string_view value) {
  return fmt::format(fmt::runtime(text), html_escaped(value));
}

std::string page_of(const PageWords& words, std::string_view title, std::string_view content) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"{0}\"><head><meta charset=\"utf-8\"><title>{1} · Volador</title>"
      "<meta name=\"viewport\" content=\"width=device-width\"><link "
      "rel=\"stylesheet\" href=\"/assets/app.css\"></head>\n"
      "<body><main class=\"sign-in\"><div class=\"sign-in-box\"><h1><img src=\"/assets/icon.svg\" alt=\"\" "
      "width=\"32\" height=\"32\">Volador</h1><h2>{1}</h2>\n{2}\n</div></main></body></html>\n",
      words.language, title, content);
}

}  // namespace

std::string failed_page(std::string_view why, std::string_view accept_language) {
  const PageWords& words = words_for(accept_language);
  return page_of(words, words.failed,
                 fmt::format("<p role=\"alert\">{}</p>\n<p><a href=\"/\">{}</a></p>", html_escaped(why), words.back));
}

std::string approval_page(const CommandLineRequest& asked, std::string_view accept_language) {
  const PageWords& words = words_for(accept_language);
  const std::string device = asked.device.empty() ? "" : "<p>" + filled(words.ask_device, asked.device) + "</p>\n";
  return page_of(words, words.ask_title,
                 fmt::format("<p>{}</p>\n<p><strong>{}</strong></p>\n{}<p>{}</p>\n"
                             "<form method=\"post\" action=\"/login/provider/approve\"><input type=\"hidden\" "
                             "name=\"approval\" value=\"{}\"><button type=\"submit\" class=\"button primary\">{}"
                             "</button></form>",
                             filled(words.ask, asked.user), html_escaped(asked.user_code), device, words.warning,
                             html_escaped(asked.approval), words.approve));
}

std::string approved_page(std::string_view user, std::string_view accept_language) {
  const PageWords& words = words_for(accept_language);
  return page_of(words, words.done_title, "<p>" + filled(words.done, user) + "</p>");
}

}  // namespace volador::dashboard
