// mpe info --cfg C: the layers of a network as JSON.
#include <cstdio>
#include <cstring>
#include <string>

#include "commands.h"
#include "error.h"
#include "io/json_writer.h"
#include "layers/operation.h"
#include "model/network.h"
#include "model/weights.h"

namespace mpe {
namespace {

void write_shape(JsonWriter& json, std::string_view key, const Shape& shape) {
  json.key(key).begin_array();
  json.value(shape.channels).value(shape.height).value(shape.width).end_array();
}

void write_layer(JsonWriter& json, const Layer& layer) {
  json.begin_object();
  json.field("index", layer.index).field("type", name_of(layer.kind)).field("line", layer.line);
  json.field("name", std::string_view(layer.name));
  json.key("inputs").begin_array();
  for (const int input : layer.inputs) json.value(input);
  json.end_array();
  write_shape(json, "in", layer.in);
  write_shape(json, "out", layer.out);
  json.field("macs", layer.macs).field("parameters", layer.parameters);
  json.field("precision", name_of(layer.precision)).field("quantize", layer.quantize);
  const LayerGeometry of = layer.operation->geometry();
  json.field("activation", name_of(layer.activation)).field("groups", of.groups);
  json.key("size").begin_array().value(of.size_y).value(of.size_x).end_array();
  json.key("stride").begin_array().value(of.stride_y).value(of.stride_x).end_array();
  json.end_object();
}

}  // namespace

int run_info(std::span<char*> arguments) {
  if (arguments.size() != 2 || std::strcmp(arguments[0], "--cfg") != 0) {
    throw Error("usage: mpe info --cfg FILE");
  }
  const Network network = load_network(arguments[1]);
  print_warnings(network.warnings);
  JsonWriter json;
  json.begin_object().field("cfg", network.file);
  write_shape(json, "input", network.input);
  json.key("inputs").begin_array();
  for (const int input : network.inputs()) json.value(input);
  json.end_array();
  json.key("layers").begin_array();
  for (const Layer& layer : network.layers) write_layer(json, layer);
  json.end_array();
  json.key("outputs").begin_array();
  for (const int output : network.outputs) json.value(output);
  json.end_array();
  json.field("weights_bytes", weights_file_bytes(network));
  json.key("warnings").begin_array();
  for (const std::string& warning : network.warnings) json.value(std::string_view(warning));
  json.end_array().end_object();
  std::printf("%s\n", json.text().c_str());
  return 0;
}

}  // namespace mpe
