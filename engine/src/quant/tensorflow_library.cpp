#include "quant/tensorflow_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "error.h"

namespace mpe::tensorflow {
namespace {

// Of the wheel, and of a build of the C library.
constexpr const char* kNames[] = {"libtensorflow_cc.so.2", "libtensorflow.so.2"};

void* open_library() {
  // Keeps the user's own settings. By default TensorFlow prints lines to stderr that are no errors,
  // and oneDNN's kernels do not guarantee the same rounding.
  setenv("TF_CPP_MIN_LOG_LEVEL", "2", 0);
  setenv("TF_ENABLE_ONEDNN_OPTS", "0", 0);
  std::string reasons;
  for (const char* name : kNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    reasons += std::string(reasons.empty() ? "" : "; ") + dlerror();
  }
  throw Error("the quantizer tensorflow needs libtensorflow, which cannot be loaded: " + reasons +
              "; put the folder that holds it into LD_LIBRARY_PATH (`harness build --with "
              "tensorflow` makes one)");
}

template <typename Function>
void find(void* handle, const char* name, Function& function) {
  void* symbol = dlsym(handle, name);
  if (symbol == nullptr) {
    throw Error(std::string("the libtensorflow that was loaded has no function ") + name +
                "; it has to be TensorFlow 2 with the eager C API");
  }
  function = reinterpret_cast<Function>(symbol);
}

Library load() {
  void* handle = open_library();
  Library library{};
  find(handle, "TF_Version", library.version);
  find(handle, "TF_NewStatus", library.new_status);
  find(handle, "TF_DeleteStatus", library.delete_status);
  find(handle, "TF_GetCode", library.code_of);
  find(handle, "TF_Message", library.message_of);
  find(handle, "TF_NewTensor", library.new_tensor);
  find(handle, "TF_DeleteTensor", library.delete_tensor);
  find(handle, "TF_TensorData", library.data_of);
  find(handle, "TF_TensorByteSize", library.bytes_of);
  find(handle, "TFE_NewContextOptions", library.new_context_options);
  find(handle, "TFE_DeleteContextOptions", library.delete_context_options);
  find(handle, "TFE_ContextOptionsSetConfig", library.set_config);
  find(handle, "TFE_NewContext", library.new_context);
  find(handle, "TFE_NewOp", library.new_operation);
  find(handle, "TFE_DeleteOp", library.delete_operation);
  find(handle, "TFE_OpAddInput", library.add_input);
  find(handle, "TFE_OpSetAttrType", library.set_type);
  find(handle, "TFE_OpSetAttrString", library.set_string);
  find(handle, "TFE_OpSetAttrFloat", library.set_float);
  find(handle, "TFE_Execute", library.execute);
  find(handle, "TFE_NewTensorHandle", library.new_handle);
  find(handle, "TFE_DeleteTensorHandle", library.delete_handle);
  find(handle, "TFE_TensorHandleResolve", library.tensor_of);
  return library;
}

// tensorflow.ConfigProto: intra_op_parallelism_threads (2) and inter_op_parallelism_threads (5), of
// the protocol buffers' wire format. A count of threads takes one byte or two.
std::string thread_config(int threads) {
  const auto number = [](int field, int value) {
    std::string bytes(1, static_cast<char>(field << 3));
    for (; value >= 128; value >>= 7) bytes.push_back(static_cast<char>((value & 127) | 128));
    bytes.push_back(static_cast<char>(value));
    return bytes;
  };
  return number(2, threads) + number(5, 1);
}

Context* make_context(int threads) {
  const Library& api = library();
  Status* status = api.new_status();
  ContextOptions* options = api.new_context_options();
  const std::string config = thread_config(threads);
  api.set_config(options, config.data(), config.size(), status);
  Context* made = api.code_of(status) == 0 ? api.new_context(options, status) : nullptr;
  const int code = api.code_of(status);
  const std::string message = api.message_of(status);
  api.delete_context_options(options);
  api.delete_status(status);
  if (code != 0) throw Error("TensorFlow " + std::string(api.version()) + ": " + message);
  return made;
}

}  // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

void check(const Status* status) {
  const Library& api = library();
  if (api.code_of(status) != 0) {
    throw Error("TensorFlow " + std::string(api.version()) + ": " + api.message_of(status));
  }
}

Context* context(int threads) {
  static Context* const made = make_context(threads);
  return made;
}

}  // namespace mpe::tensorflow
