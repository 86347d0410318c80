#include "runtime/control/program_transfer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/control/unary.h"
#include "runtime/protocol/control.grpc.pb.h"
#include "runtime/quantities.h"

namespace volador::control {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

// Removes the temporary file unless it was renamed.
struct Temporary {
  std::string path;
  ~Temporary() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

tl::unexpected<Error> cannot(const char* verb, const std::filesystem::path& path, int error) {
  const auto code = error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  return make_error(code, fmt::format("cannot {} {}: {}", verb, path.string(), std::strerror(error)));
}

// Reads up to `size_max` bytes; fewer only at the end of the file. Empty: the end.
Result<std::string> read_piece(int fd, const std::filesystem::path& path, int64_t size_max) {
  std::string out(static_cast<size_t>(size_max), '\0');
  size_t have = 0;
  while (have < out.size()) {
    const ssize_t got = ::read(fd, out.data() + have, out.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot("read", path, errno);
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  out.resize(have);
  return out;
}

Result<void> write_piece(int fd, const std::filesystem::path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return cannot("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

tl::unexpected<Error> too_large(const std::string& what, int64_t bytes, int64_t bytes_max) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{} has {}; a program may have at most {}", what, counted(bytes, "byte"), bytes_max));
}

}  // namespace

Result<security::Digest> sha256_of_file(const std::filesystem::path& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return cannot("read", path, errno);
  security::Sha256 hash;
  while (true) {
    auto piece = read_piece(file.fd(), path, kProgramChunkBytes);
    if (!piece) return make_error(piece.error());
    if (piece->empty()) return hash.finish();
    hash.update(*piece);
  }
}

Result<void> upload_program(const Channel& channel, const std::filesystem::path& path, const security::Digest& sha256,
                            std::chrono::milliseconds timeout, const std::stop_token& stop) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return cannot("read", path, errno);
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return cannot("read", path, errno);
  const int64_t size = info.st_size;
  if (size > kProgramBytesMax) return too_large(path.string(), size, kProgramBytesMax);

  const auto stub = protocol::Control::NewStub(channel.grpc());
  grpc::ClientContext context;
  set_timeout(context, timeout);
  const std::stop_callback on_stop(stop, [&context] { context.TryCancel(); });
  protocol::ErrorInfo reply;
  const auto writer = stub->PutProgram(&context, &reply);
  // The stream must be finished in any case.
  const auto give_up = [&](Error error) {
    context.TryCancel();
    writer->Finish();
    return make_error(std::move(error));
  };
  security::Sha256 hash;
  int64_t offset = 0;
  bool open = true;
  do {
    auto piece = read_piece(file.fd(), path, kProgramChunkBytes);
    if (!piece) return give_up(piece.error());
    hash.update(*piece);
    const auto end = offset + static_cast<int64_t>(piece->size());
    const bool last = piece->size() < static_cast<size_t>(kProgramChunkBytes) || end == size;
    if (end > size || (last && (end != size || hash.finish() != sha256))) {
      return give_up(
          {ErrorCode::kInvalidArgument,
           fmt::format("{} has changed since this program was started from it (expected sha256:{}). Start the "
                       "program again.",
                       path.string(), security::hex(sha256))});
    }
    protocol::ProgramChunk chunk;
    chunk.set_sha256(security::raw(sha256));
    chunk.set_offset(offset);
    chunk.set_size_bytes(size);
    chunk.set_data(std::move(*piece));
    open = writer->Write(chunk);  // False: the head has answered early or the connection is gone; see Finish.
    offset = end;
  } while (open && offset < size);
  if (open) writer->WritesDone();
  const grpc::Status status = writer->Finish();
  if (!status.ok()) return make_error(from_status(status, channel.address()));
  return check_reply(reply);
}

namespace {

Result<void> download_once(const Channel& channel, const security::Digest& sha256,
                           const std::filesystem::path& destination, std::chrono::milliseconds timeout,
                           int64_t bytes_max, bool* lost) {
  std::string name = destination.string() + ".XXXXXX";
  File file(::mkostemp(name.data(), O_CLOEXEC));
  if (file.fd() < 0)
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("cannot write {}: {}", destination.string(), std::strerror(errno)));
  Temporary temporary{name};

  const auto stub = protocol::Control::NewStub(channel.grpc());
  grpc::ClientContext context;
  set_timeout(context, timeout);
  protocol::ProgramRequest request;
  request.set_sha256(security::raw(sha256));
  const auto reader = stub->GetProgram(&context, request);
  const auto give_up = [&](Error error) {
    context.TryCancel();
    reader->Finish();
    return make_error(std::move(error));
  };
  security::Sha256 hash;
  int64_t offset = 0;
  protocol::ProgramChunk chunk;
  while (reader->Read(&chunk)) {
    if (auto answer = check_reply(chunk.error()); !answer) return give_up(answer.error());
    if (chunk.offset() != offset) {
      return give_up({ErrorCode::kInternal, fmt::format("{} sent byte {} of a program where {} comes next",
                                                        channel.address(), chunk.offset(), offset)});
    }
    offset += static_cast<int64_t>(chunk.data().size());
    const int64_t expected_size = std::max(offset, chunk.size_bytes());
    if (expected_size > bytes_max) {
      return give_up(too_large("program sha256:" + security::hex(sha256), expected_size, bytes_max).value());
    }
    hash.update(chunk.data());
    if (auto written = write_piece(file.fd(), destination, chunk.data()); !written) return give_up(written.error());
  }
  const grpc::Status status = reader->Finish();
  *lost = connection_lost(status);
  if (!status.ok()) return make_error(from_status(status, channel.address()));
  if (hash.finish() != sha256) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} sent {} not program sha256:{}; thrown away", channel.address(),
                                  counted(offset, "byte that is", "bytes that are"), security::hex(sha256)));
  }
  if (::fchmod(file.fd(), 0700) != 0 || ::fsync(file.fd()) != 0 || !file.close() ||
      ::rename(name.c_str(), destination.c_str()) != 0) {
    return cannot("write", destination, errno);
  }
  temporary.path.clear();
  return {};
}

}  // namespace

Result<void> download_program(const Channel& channel, const security::Digest& sha256,
                              const std::filesystem::path& destination, std::chrono::milliseconds timeout,
                              int64_t bytes_max) {
  return repeat_while_lost(
      {}, [&](bool* lost) { return download_once(channel, sha256, destination, timeout, bytes_max, lost); });
}

}  // namespace volador::control
