#include "head/shell/program_reactors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <optional>

#include "head/shell/program_exchange.h"
#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/protocol/error_info.h"

namespace volador::head {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

// Functions on the exchange's thread hold a reference to the reactor, so that it outlives the call if they are late. If
// they are dropped because the head stops, the server's shutdown ends the call.
class PutProgram final : public grpc::ServerReadReactor<protocol::ProgramChunk>,
                         public std::enable_shared_from_this<PutProgram> {
 public:
  PutProgram(ProgramExchange& programs, protocol::ErrorInfo* reply) : programs_(programs), reply_(reply) {}

  void start() {
    self_ = shared_from_this();
    StartRead(&chunk_);
  }

 private:
  void OnReadDone(bool ok) override {
    programs_.post([self = shared_from_this(), ok] { ok ? self->on_chunk() : self->on_end(); });
  }
  void OnCancel() override {
    // A pending read fails on cancellation too, but a call that waits for the exchange has no pending read.
    programs_.post([self = shared_from_this()] {
      self->answer(Error{ErrorCode::kCancelled, "the upload was cut off"});
    });
  }
  void OnDone() override { auto last = std::move(self_); }

  // ---- on the exchange's thread ----

  void on_chunk() {
    if (upload_) return take_chunk();
    programs_.begin(chunk_.sha256(), chunk_.size_bytes(),
                    [self = shared_from_this()](Result<std::unique_ptr<ProgramCache::Upload>> upload) {
                      if (self->answered_) return;
                      if (!upload) return self->answer(upload.error());
                      if (!*upload) return self->answer(std::nullopt);
                      self->upload_ = std::move(*upload);
                      self->take_chunk();
                    });
  }

  void take_chunk() {
    if (answered_) return;
    if (auto written = upload_->write(chunk_.offset(), chunk_.data()); !written) return answer(written.error());
    programs_.progressed(upload_->sha256());
    StartRead(&chunk_);
  }

  void on_end() {
    if (answered_) return;
    if (!upload_) return answer(Error{ErrorCode::kInvalidArgument, "an upload without any piece"});
    if (auto finished = upload_->finish(); !finished) return answer(finished.error());
    log::info("head", "program stored", {{"program", program_name(upload_->sha256())}});
    const std::string sha256 = upload_->sha256();
    answer(std::nullopt);
    programs_.finished(sha256);
  }

  void answer(const std::optional<Error>& error) {
    if (answered_) return;
    answered_ = true;
    upload_.reset();
    if (error) {
      if (error->code != ErrorCode::kCancelled) log::warn("head", "program refused", {{"error", error->message}});
      fill(*reply_, *error);
    }
    Finish(grpc::Status::OK);
  }

  ProgramExchange& programs_;
  protocol::ErrorInfo* reply_;
  std::shared_ptr<PutProgram> self_;
  protocol::ProgramChunk chunk_;
  std::unique_ptr<ProgramCache::Upload> upload_;
  bool answered_ = false;
};

class GetProgram final : public grpc::ServerWriteReactor<protocol::ProgramChunk>,
                         public std::enable_shared_from_this<GetProgram> {
 public:
  GetProgram(ProgramExchange& programs, std::string sha256) : programs_(programs), sha256_(std::move(sha256)) {}
  ~GetProgram() override {
    if (fd_ >= 0) close(fd_);
  }

  void start() {
    self_ = shared_from_this();
    programs_.post([self = shared_from_this()] {
      self->programs_.fetch(self->sha256_, [self](Result<std::filesystem::path> path) {
        path ? self->open_file(*path) : self->fail(path.error());
      });
    });
  }

 private:
  void OnWriteDone(bool ok) override {
    programs_.post([self = shared_from_this(), ok] { ok ? self->send_next() : self->end(); });
  }
  void OnCancel() override {
    programs_.post([self = shared_from_this()] { self->end(); });
  }
  void OnDone() override { auto last = std::move(self_); }

  // ---- on the exchange's thread ----

  void open_file(const std::filesystem::path& path) {
    path_ = path;
    struct stat info {};
    fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0 || fstat(fd_, &info) != 0) return fail(file_error("open", path, errno));
    chunk_.set_sha256(sha256_);
    chunk_.set_size_bytes(info.st_size);
    send_next();
  }

  void send_next() {
    if (ended_) return;
    if (failed_ || offset_ >= chunk_.size_bytes()) return end();
    std::string* data = chunk_.mutable_data();
    data->resize(kChunkBytes);
    const ssize_t size = pread(fd_, data->data(), data->size(), offset_);
    if (size <= 0) return fail(file_error("read", path_, size < 0 ? errno : EIO));
    data->resize(static_cast<size_t>(size));
    chunk_.set_offset(offset_);
    offset_ += size;
    StartWrite(&chunk_);
  }

  void fail(const Error& error) {
    if (ended_ || failed_) return;
    failed_ = true;
    chunk_.Clear();
    chunk_.set_sha256(sha256_);
    fill(*chunk_.mutable_error(), error);
    StartWrite(&chunk_);
  }

  void end() {
    if (ended_) return;
    ended_ = true;
    Finish(grpc::Status::OK);
  }

  ProgramExchange& programs_;
  const std::string sha256_;
  std::shared_ptr<GetProgram> self_;
  std::filesystem::path path_;
  protocol::ProgramChunk chunk_;
  int64_t offset_ = 0;
  int fd_ = -1;
  bool failed_ = false;
  bool ended_ = false;
};

}  // namespace

grpc::ServerReadReactor<protocol::ProgramChunk>* new_put_program(ProgramExchange& programs,
                                                                 protocol::ErrorInfo* reply) {
  auto reactor = std::make_shared<PutProgram>(programs, reply);
  reactor->start();
  return reactor.get();
}

grpc::ServerWriteReactor<protocol::ProgramChunk>* new_get_program(ProgramExchange& programs, std::string sha256) {
  auto reactor = std::make_shared<GetProgram>(programs, std::move(sha256));
  reactor->start();
  return reactor.get();
}

}  // namespace volador::head
