// A process's connection to the object store of its node. It writes objects into arenas of its own and tells the store; others' objects
// it maps for reading. Connects at its first use: a process that never touches an object has neither socket nor thread for it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/store/object_store.h"

namespace volador {

struct StoreClientOptions {
  // Path of the store's socket. kUnavailable: this machine has no worker; the message says what to do.
  std::function<Result<std::string>()> find_store;
  std::string who;  // For people: "driver tune_digits".
  // The connection was lost, or none can be made: called before anybody learns of it, without a lock; it may end the process.
  std::function<void()> on_lost = {};
};

class StoreClient final : public ObjectStore {
 public:
  explicit StoreClient(StoreClientOptions options);
  // What others hold goes on; here every later call fails.
  ~StoreClient() override;

  Result<std::unique_ptr<ObjectDraft>> create(size_t bytes) override;
  Result<std::shared_ptr<const StoredObject>> seal(std::unique_ptr<ObjectDraft> draft, const PutSite& site, RefScope* contents = nullptr) override;
  std::shared_ptr<const StoredObject> acquire(const ObjectKey& key, const std::string& address, bool claim) override;
  void lend(const StoredObject& object) override;
  void free(const StoredObject& object) override;
  void when_ready(const StoredObject& object, std::function<void()> call) override;
  void settle() override;

 private:
  struct Impl;
  class Object;
  class Draft;
  class Reading;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador
