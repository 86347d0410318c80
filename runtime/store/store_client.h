// A process's connection to its node's object store. The process writes objects into its own arenas and maps other
// arenas for reading. Connects on first use: a process without objects has neither socket nor thread for it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/store/object_store.h"

namespace volador {

// Options of a StoreClient.
struct StoreClientOptions {
  // Returns the path of the store's socket. kUnavailable: this machine has no worker; the message says what to do.
  std::function<Result<std::string>()> find_store;
  std::string who;  // Display name: "driver tune_digits".
  // Called when the connection is lost or cannot be made, before any error is reported, without a lock; may end the
  // process.
  std::function<void()> on_lost = {};
};

// ObjectStore over a connection to the node's store. Thread safe.
class StoreClient final : public ObjectStore {
 public:
  explicit StoreClient(StoreClientOptions options);
  // Objects held elsewhere stay usable; every later call here fails.
  ~StoreClient() override;

  Result<std::unique_ptr<ObjectDraft>> create(size_t bytes) override;
  Result<std::shared_ptr<const StoredObject>> seal(std::unique_ptr<ObjectDraft> draft, const PutSite& site,
                                                   RefScope* contents = nullptr) override;
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
