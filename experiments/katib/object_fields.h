// Reads the keys of a map one by one, and reports what is wrong with them and which are not known.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/finding.h"
#include "runtime/yaml/value.h"

namespace volador::experiments::katib {

// "\"ten\"", "0.5", "a list": a value in a message.
std::string shown(const yaml::Value& value);
// A scalar as text: 0.1 gives "0.1", true "true". No value: a list, a map or null.
std::optional<std::string> scalar_text(const yaml::Value& value);

// Keys are case-sensitive: one in the wrong case is an error that names the right one, and its value is read all the same,
// so that no further error follows from it. A null is absent.
class ObjectFields {
 public:
  // `value`: null pointer or null: all keys are absent. Anything but a map is an error. The findings and the value
  // outlive this object.
  ObjectFields(const yaml::Value* value, std::string path, Findings& findings);

  bool is_given() const { return map_ != nullptr; }
  const yaml::Place& place() const { return place_; }
  const std::string& path() const { return path_; }
  std::string path(std::string_view key) const { return path_below(path_, key); }
  Findings& findings() const { return findings_; }

  // Value of the key; null pointer: absent.
  const yaml::Value* take(std::string_view key);
  ObjectFields object(std::string_view key);
  // No value: absent, or refused.
  std::optional<std::string> text(std::string_view key);
  std::optional<std::string> one_of(std::string_view key, const std::vector<std::string>& choices);
  std::optional<bool> boolean(std::string_view key);
  // A text with digits is a number too, as placeholders leave it.
  std::optional<int64_t> whole_number(std::string_view key, int64_t min,
                                      int64_t max = std::numeric_limits<int32_t>::max());
  std::optional<double> number(std::string_view key);
  std::vector<std::string> texts(std::string_view key);
  std::map<std::string, std::string> pairs(std::string_view key);
  // Calls `read` with each item of a list.
  void each(std::string_view key, const std::function<void(const yaml::Value& item, const std::string& path)>& read);

  // Reports that the key is missing.
  void require(std::string_view key, std::string_view next_step = "add it");
  void error(std::string_view key, const yaml::Value* value, std::string message);
  // Keys that are accepted and make no difference.
  void ignore(std::initializer_list<std::string_view> keys);
  // Reports all keys that were neither taken nor ignored.
  void finish();

 private:
  void refuse(std::string_view key, const yaml::Value& value, std::string_view expected, std::string_view hint = {});

  const yaml::Value* map_ = nullptr;
  yaml::Place place_;
  const std::string path_;
  Findings& findings_;
  std::set<std::string, std::less<>> known_;
  std::set<std::string, std::less<>> reported_;  // Keys in the wrong case.
};

}  // namespace volador::experiments::katib
