#include "runtime/actor/lending.h"

#include "runtime/actor/session.h"

namespace volador::internal {
namespace {

thread_local int tasks_on_thread = 0;

}  // namespace

TaskOnThread::TaskOnThread() { ++tasks_on_thread; }
TaskOnThread::~TaskOnThread() { --tasks_on_thread; }
bool TaskOnThread::is_here() { return tasks_on_thread > 0; }

LentCpus::LentCpus() { Session::current()->lend_cpus(true); }
LentCpus::~LentCpus() { Session::current()->lend_cpus(false); }

}  // namespace volador::internal
