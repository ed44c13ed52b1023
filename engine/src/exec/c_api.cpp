// The C interface: sessions behind a pointer, exceptions as a status and a message.
#include <exception>
#include <string>
#include <vector>

#include "error.h"
#include "exec/session.h"
#include "mpe.h"
#include "threads/affinity.h"

struct mpe_session {
  mpe::Session session;
  bool has_run = false;
};

namespace {

thread_local std::string last_error;

// Runs `action`; its exceptions become a message and `failed`.
template <typename Action, typename Result>
Result guarded(Result failed, Action&& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return failed;
}

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

void require(const void* argument, const char* name) {
  if (argument == nullptr) throw mpe::Error(std::string(name) + " is a null pointer");
}

mpe::Options options_of(const mpe_options& options) {
  mpe::Options result;
  result.threads = options.threads;
  if (options.cores != nullptr) result.cores = mpe::parse_cores(options.cores);
  result.isa = text_or_empty(options.isa);
  result.algorithm = text_or_empty(options.algorithm);
  result.tune = text_or_empty(options.tune);
  if (options.prefer != MPE_PREFER_SPEED && options.prefer != MPE_PREFER_MEMORY) {
    throw mpe::Error("prefer is neither MPE_PREFER_SPEED nor MPE_PREFER_MEMORY");
  }
  result.prefer =
      options.prefer == MPE_PREFER_MEMORY ? mpe::Preference::kMemory : mpe::Preference::kSpeed;
  result.calibration = text_or_empty(options.calibration);
  result.bn_epsilon = options.bn_epsilon;
  if (options.quantizer != nullptr) result.quantizer = options.quantizer;
  return result;
}

int head_layer(const mpe::Session& session, int head) {
  if (head < 0 || static_cast<std::size_t>(head) >= session.heads().size()) {
    throw mpe::Error("there is no head " + std::to_string(head) + "; the network has " +
                     std::to_string(session.heads().size()) + ", counted from 0");
  }
  return session.heads()[static_cast<std::size_t>(head)];
}

mpe_shape shape_of(const mpe::Shape& shape) { return {shape.channels, shape.height, shape.width}; }

}  // namespace

mpe_options mpe_default_options(void) {
  const mpe::Options options;
  mpe_options defaults = {};
  defaults.threads = options.threads;
  defaults.prefer = MPE_PREFER_SPEED;
  defaults.bn_epsilon = options.bn_epsilon;
  return defaults;
}

mpe_session* mpe_open(const char* cfg, const char* weights, const mpe_options* options) {
  return guarded(static_cast<mpe_session*>(nullptr), [&] {
    require(cfg, "cfg");
    require(weights, "weights");
    const mpe_options chosen = options == nullptr ? mpe_default_options() : *options;
    return new mpe_session{mpe::Session(cfg, weights, options_of(chosen))};
  });
}

void mpe_close(mpe_session* session) { delete session; }

mpe_shape mpe_input_shape(const mpe_session* session) {
  return guarded(mpe_shape{}, [&] {
    require(session, "session");
    return shape_of(session->session.network().input);
  });
}

int mpe_input_count(const mpe_session* session) {
  return guarded(-1, [&] {
    require(session, "session");
    return static_cast<int>(session->session.network().inputs().size());
  });
}

mpe_shape mpe_shape_of_input(const mpe_session* session, int input) {
  return guarded(mpe_shape{}, [&] {
    require(session, "session");
    const mpe::Network& network = session->session.network();
    const std::vector<int> inputs = network.inputs();
    if (input < 0 || static_cast<std::size_t>(input) >= inputs.size()) {
      throw mpe::Error("there is no input " + std::to_string(input) + "; the network has " +
                       std::to_string(inputs.size()) + ", counted from 0");
    }
    return shape_of(network.output_shape(inputs[static_cast<std::size_t>(input)]));
  });
}

int mpe_run(mpe_session* session, const float* input, size_t count) {
  return guarded(-1, [&] {
    require(session, "session");
    require(input, "input");
    session->session.run({input, count});
    session->has_run = true;
    return 0;
  });
}

int mpe_head_count(const mpe_session* session) {
  return guarded(-1, [&] {
    require(session, "session");
    return static_cast<int>(session->session.heads().size());
  });
}

int mpe_describe_head(const mpe_session* session, int head, mpe_head* description) {
  return guarded(-1, [&] {
    require(session, "session");
    require(description, "description");
    const int layer = head_layer(session->session, head);
    const mpe::Shape& shape = session->session.network().output_shape(layer);
    *description = {layer, shape_of(shape), static_cast<std::size_t>(shape.elements())};
    return 0;
  });
}

int mpe_read_head(mpe_session* session, int head, float* values, size_t count) {
  return guarded(-1, [&] {
    require(session, "session");
    require(values, "values");
    const int layer = head_layer(session->session, head);
    if (!session->has_run) throw mpe::Error("a head is read before the first run");
    session->session.read(layer, {values, count});
    return 0;
  });
}

const char* mpe_error(void) { return last_error.c_str(); }
