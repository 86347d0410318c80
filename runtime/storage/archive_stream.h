// The files of a manifest as one tar or zip file, read piece by piece.
#pragma once

#include <functional>
#include <memory>

#include "runtime/files/run_files.h"
#include "runtime/result.h"
#include "runtime/storage/manifest.h"

namespace volador::storage {

// `open` is called for each file when it is due, and for the next one in advance, so that its start costs no time.
std::unique_ptr<FilePieces> stream_archive(
    Manifest manifest, bool zip, std::function<Result<std::unique_ptr<FilePieces>>(const ManifestFile&)> open);

}  // namespace volador::storage
