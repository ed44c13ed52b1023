// The part of TensorFlow's C API that conversions need, out of a libtensorflow that is loaded when
// it is first asked for: the engine is linked to nothing of it and builds without its headers.
//
// Names, signatures and constants: tensorflow/c/c_api.h, tf_tensor.h, tf_datatype.h, tf_status.h
// and eager/c_api.h, which TensorFlow keeps compatible within a major version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mpe::tensorflow {

struct Status;
struct Tensor;
struct ContextOptions;
struct Context;
struct Operation;
struct TensorHandle;

enum DataType : int { kFloat = 1, kQint16 = 15 };

struct Library {
  const char* (*version)();

  Status* (*new_status)();
  void (*delete_status)(Status*);
  int (*code_of)(const Status*);  // 0: fine
  const char* (*message_of)(const Status*);

  // Takes the data as they lie; `deallocator` is called when they are no longer used.
  Tensor* (*new_tensor)(DataType, const std::int64_t* sizes, int dimensions, void* data,
                        std::size_t bytes,
                        void (*deallocator)(void* data, std::size_t bytes, void* argument),
                        void* argument);
  void (*delete_tensor)(Tensor*);
  void* (*data_of)(const Tensor*);
  std::size_t (*bytes_of)(const Tensor*);

  ContextOptions* (*new_context_options)();
  void (*delete_context_options)(ContextOptions*);
  void (*set_config)(ContextOptions*, const void* config_proto, std::size_t bytes, Status*);
  Context* (*new_context)(const ContextOptions*, Status*);

  Operation* (*new_operation)(Context*, const char* name, Status*);
  void (*delete_operation)(Operation*);
  void (*add_input)(Operation*, TensorHandle*, Status*);
  void (*set_type)(Operation*, const char* attribute, DataType);
  void (*set_string)(Operation*, const char* attribute, const void* value, std::size_t length);
  void (*set_float)(Operation*, const char* attribute, float value);
  void (*execute)(Operation*, TensorHandle** results, int* count, Status*);

  TensorHandle* (*new_handle)(const Tensor*, Status*);
  void (*delete_handle)(TensorHandle*);
  Tensor* (*tensor_of)(TensorHandle*, Status*);
};

// Loads the library at the first call, as the system's loader finds it (LD_LIBRARY_PATH). It stays
// loaded to the end of the process. Throws mpe::Error where there is none or it lacks a function.
const Library& library();

// Throws mpe::Error with TensorFlow's own message where a call has failed.
void check(const Status* status);

// The one eager context of this process, made at the first call and kept to its end; `threads` of
// that call holds. Throws mpe::Error.
Context* context(int threads);

}  // namespace mpe::tensorflow
