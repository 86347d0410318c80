// Run time of a task, appended by its runner to the reply.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>

namespace volador {

inline void put_time_taken(std::string& answer, std::chrono::nanoseconds taken) {
  const auto seconds = std::chrono::duration<float>(taken).count();
  answer.append(reinterpret_cast<const char*>(&seconds), sizeof seconds);
}

// Removes the run time from the reply; 0: missing.
inline std::chrono::nanoseconds take_time_taken(std::string& answer) {
  float seconds = 0;
  if (answer.size() < sizeof seconds) return {};
  std::memcpy(&seconds, answer.data() + answer.size() - sizeof seconds, sizeof seconds);
  answer.resize(answer.size() - sizeof seconds);
  if (!(seconds > 0) || seconds > 1e9F) return {};
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<float>(seconds));
}

}  // namespace volador
