// Table of short values through which the ranks of a group find each other before they are connected.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace volador::train {

// Values are bytes. Every call may come from any thread. An exception of an implementation ends the joining of the
// group and reaches its caller.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual void set(const std::string& key, const std::string& value) = 0;
  // Does not wait.
  virtual std::optional<std::string> get(const std::string& key) = 0;
  // Returns the value as soon as there is one. Throws volador::Exception(kTimeout), with the key in its message.
  virtual std::string wait(const std::string& key, std::chrono::milliseconds timeout) = 0;
  // Adds to a decimal number, 0 if the key is missing, and returns the sum.
  virtual int64_t add(const std::string& key, int64_t amount) = 0;
  // Adds bytes to the end of a value, empty if the key is missing.
  virtual void append(const std::string& key, const std::string& bytes) = 0;
  // Whether there was such a key.
  virtual bool remove(const std::string& key) = 0;

  // Values of all keys, in their order; throws as wait() does. The default waits for one after the other: override it
  // where a call costs a round trip.
  virtual std::vector<std::string> wait_all(const std::vector<std::string>& keys, std::chrono::milliseconds timeout);
};

// A table in this process, for ranks that are threads.
class LocalRendezvous final : public Rendezvous {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::string wait(const std::string& key, std::chrono::milliseconds timeout) override;
  // kInvalidArgument: the value is not a number.
  int64_t add(const std::string& key, int64_t amount) override;
  void append(const std::string& key, const std::string& bytes) override;
  bool remove(const std::string& key) override;

  // Removes all keys that begin so, such as those of a former generation. Returns their number.
  size_t remove_prefix(const std::string& prefix);
  size_t size() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace volador::train
