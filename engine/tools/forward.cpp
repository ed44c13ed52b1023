// mpe forward: runs the images of a .npy file and writes tensors and digests.
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "commands.h"
#include "error.h"
#include "exec/session.h"
#include "io/json_writer.h"
#include "io/npy.h"
#include "io/sha256.h"

namespace mpe {
namespace {

void make_directory(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw Error(path + ": cannot make this directory: " + error.message());
}

// One .npy file for the output of one layer over the whole batch.
class TensorFile {
 public:
  TensorFile(Session& session, const std::string& directory, const char* prefix, int layer,
             std::int64_t images)
      : session_(session), layer_(layer) {
    char name[32];
    std::snprintf(name, sizeof name, "%s_%03d.npy", prefix, layer);
    path_ = (std::filesystem::path(directory) / name).string();
    const Shape& shape = session.network().output_shape(layer);
    const std::int64_t sizes[] = {images, shape.channels, shape.height, shape.width};
    writer_ = std::make_unique<NpyWriter>(path_, sizes);
  }

  const std::string& path() const { return path_; }
  void write(std::vector<float>& values) {
    const std::int64_t elements = session_.network().output_shape(layer_).elements();
    values.resize(static_cast<std::size_t>(elements));
    session_.read(layer_, values);
    writer_->write(values);
  }
  void finish() { writer_->finish(); }

 private:
  Session& session_;
  int layer_;
  std::string path_;
  std::unique_ptr<NpyWriter> writer_;
};

// SHA-256 over the head tensors of one image as little-endian float32, in the layers' order.
std::string digest_of(Session& session, std::vector<float>& values) {
  Sha256 hash;
  for (const int head : session.heads()) {
    const std::int64_t elements = session.network().output_shape(head).elements();
    values.resize(static_cast<std::size_t>(elements));
    session.read(head, values);
    hash.update(std::as_bytes(std::span(values)));
  }
  return hash.hex();
}

// Of several inputs, an image is all their values, one input behind the other.
ImageReader open_images(const std::string& file, const Network& network) {
  if (network.inputs().size() == 1) {
    return ImageReader(NpyReader(file), network.input, network.input_values);
  }
  return ImageReader(NpyReader(file), {static_cast<int>(network.input_elements()), 1, 1});
}

}  // namespace

int run_forward(std::span<char*> arguments) {
  const RunArguments parsed = parse_arguments(Command::kForward, arguments);
  Session session(parsed.cfg, parsed.weights, parsed.session);
  print_warnings(session.warnings());
  ImageReader images = open_images(parsed.input, session.network());

  std::vector<TensorFile> heads;
  if (!parsed.heads.empty()) {
    make_directory(parsed.heads);
    for (const int head : session.heads()) {
      heads.emplace_back(session, parsed.heads, "head", head, images.images());
    }
  }
  std::vector<TensorFile> layers;
  if (!parsed.layers.empty()) {
    make_directory(parsed.layers);
    for (const Layer& layer : session.network().layers) {
      layers.emplace_back(session, parsed.layers, "layer", layer.index, images.images());
    }
  }

  std::vector<std::string> digests;
  std::vector<float> image(static_cast<std::size_t>(images.shape().elements()));
  std::vector<float> values;
  for (std::int64_t i = 0; i < images.images(); ++i) {
    images.next(image);
    if (layers.empty()) {
      session.run(image);
    } else {
      session.run(image, [&](int layer) { layers[static_cast<std::size_t>(layer)].write(values); });
    }
    for (TensorFile& head : heads) head.write(values);
    if (parsed.digest) digests.push_back(digest_of(session, values));
  }
  for (TensorFile& layer : layers) layer.finish();
  for (TensorFile& head : heads) head.finish();

  JsonWriter json;
  json.begin_object().key("digests").begin_array();
  for (const std::string& digest : digests) json.value(std::string_view(digest));
  json.end_array().key("heads").begin_array();
  for (const TensorFile& head : heads) json.value(std::string_view(head.path()));
  json.end_array().key("head_layers").begin_array();
  for (const int head : session.heads()) json.value(head);
  json.end_array().field("images", images.images()).end_object();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

}  // namespace mpe
