// Strict XML parser that rejects what a browser would: an unclosed tag, an unquoted attribute, a bare & or <.
#pragma once

#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace volador::tune::testing {

struct XmlElement {
  std::string name;
  std::map<std::string, std::string> attributes;  // Raw, not unescaped.
  std::string text;                               // Own text.
};

class XmlReader {
 public:
  // Returns an empty string if the document is well formed, otherwise the error and its position.
  std::string read(std::string_view text) {
    text_ = text;
    for (at_ = 0; at_ < text_.size();) {
      if (text_[at_] == '<') {
        if (!tag()) return problem("a tag is not well formed");
      } else if (text_[at_] == '&') {
        if (!entity()) return problem("a bare &");
      } else {
        if (open_.empty() && !std::isspace(static_cast<unsigned char>(text_[at_])))
          return problem("text outside the document");
        if (!open_.empty()) elements[open_.back()].text += text_[at_];
        ++at_;
      }
    }
    return open_.empty() && !elements.empty() ? "" : problem("an element is not closed");
  }

  std::vector<XmlElement> elements;  // In document order.

  size_t count(std::string_view name, std::string_view of_class = {}) const {
    size_t found = 0;
    for (const XmlElement& element : elements) {
      const auto cls = element.attributes.find("class");
      const std::string all = cls == element.attributes.end() ? "" : " " + cls->second + " ";
      found += element.name == name &&
               (of_class.empty() || all.find(" " + std::string(of_class) + " ") != std::string::npos);
    }
    return found;
  }
  bool has_text(std::string_view words) const {
    for (const XmlElement& element : elements) {
      if (element.name == "text" && element.text.find(words) != std::string::npos) return true;
    }
    return false;
  }

 private:
  std::string problem(std::string_view what) const {
    return std::string(what) + " at byte " + std::to_string(at_) + ": " + std::string(text_.substr(at_, 60));
  }
  bool entity() {
    for (const std::string_view known : {"&amp;", "&lt;", "&gt;", "&quot;"}) {
      if (!text_.substr(at_).starts_with(known)) continue;
      if (open_.empty()) return false;
      elements[open_.back()].text += known;
      at_ += known.size();
      return true;
    }
    return false;
  }
  std::string word() {
    const size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '-' || text_[at_] == ':'))
      ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  void spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  bool tag() {
    ++at_;
    if (take("/")) {
      const std::string name = word();
      if (open_.empty() || elements[open_.back()].name != name || !take(">")) return false;
      open_.pop_back();
      return true;
    }
    XmlElement element{.name = word()};
    if (element.name.empty() || (open_.empty() && !elements.empty())) return false;
    for (spaces(); at_ < text_.size() && text_[at_] != '>' && text_[at_] != '/'; spaces()) {
      const std::string name = word();
      if (name.empty() || !take("=\"")) return false;
      const size_t end = text_.find('"', at_);
      if (end == std::string_view::npos) return false;
      const std::string value(text_.substr(at_, end - at_));
      if (value.find('<') != std::string::npos || !element.attributes.emplace(name, value).second) return false;
      at_ = end + 1;
    }
    const bool closed = take("/");
    if (!take(">")) return false;
    elements.push_back(std::move(element));
    if (!closed) open_.push_back(elements.size() - 1);
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<size_t> open_;
};

}  // namespace volador::tune::testing
