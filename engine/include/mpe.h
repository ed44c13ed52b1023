/* The engine as a C library: open a network, run images, read its heads.
 *
 *   mpe_session* session = mpe_open("net.cfg", "net.weights", NULL);
 *   if (session == NULL) { fprintf(stderr, "%s\n", mpe_error()); return 1; }
 *   mpe_run(session, pixels, count);
 *   mpe_read_head(session, 0, values, head.count);
 *   mpe_close(session);
 *
 * A session may be used by one thread at a time; different sessions are independent. A null pointer
 * where none is allowed is a failure like any other.
 */
#ifndef MPE_H
#define MPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mpe_session mpe_session;

enum { MPE_PREFER_SPEED = 0, MPE_PREFER_MEMORY = 1 };

/* Start from mpe_default_options(). Strings are copied; NULL means the default. */
typedef struct mpe_options {
  int threads;           /* the caller's included; default 1 */
  const char* cores;     /* one for each thread to stay on, the caller's first: "0-3" or "0,2"; the
                            caller's thread until mpe_close(); default: as the system likes */
  const char* isa;       /* instruction set, see `mpe caps`; default: the best */
  const char* algorithm; /* of convolutions, as mpe caps lists them; default: chosen per layer */
  const char* tune; /* path of a file that keeps the fastest algorithm of each convolution; what
                       it lacks is measured while the session opens; default: none */
  int prefer;       /* MPE_PREFER_SPEED or MPE_PREFER_MEMORY */
  const char* calibration; /* path of a calibration file; default: none */
  float bn_epsilon;        /* of batch normalisation; default 1e-5 */
  const char* quantizer;   /* of layers with quantize=1: "builtin" (default), or "tensorflow", which
                              loads libtensorflow as the system finds it (LD_LIBRARY_PATH) */
} mpe_options;

typedef struct mpe_shape {
  int channels;
  int height;
  int width;
} mpe_shape;

/* What a yolo, region or softmax layer reads, or the network's output. */
typedef struct mpe_head {
  int layer; /* that computed it, counted from 0; -1: the network's input */
  mpe_shape shape;
  size_t count; /* channels * height * width */
} mpe_head;

mpe_options mpe_default_options(void);

/* Loads a Darknet cfg and its weights. `options` may be NULL. NULL on failure. */
mpe_session* mpe_open(const char* cfg, const char* weights, const mpe_options* options);

/* Does nothing for NULL. */
void mpe_close(mpe_session* session);

/* Of [net]. All 0 on failure. */
mpe_shape mpe_input_shape(const mpe_session* session);

/* The inputs: that of [net], then those of the sections [input] in their order. -1 on failure. */
int mpe_input_count(const mpe_session* session);

/* Inputs are counted from 0. All 0 on failure. */
mpe_shape mpe_shape_of_input(const mpe_session* session, int input);

/* Runs one image of `count` floats, channel by channel, row by row; those of several inputs one
 * behind the other. Allocates nothing, unless the quantizer is TensorFlow's. The values must stay
 * where they are until the heads have been read. 0, or -1 on failure. */
int mpe_run(mpe_session* session, const float* input, size_t count);

/* -1 on failure. */
int mpe_head_count(const mpe_session* session);

/* Heads are counted from 0 in the order of their layers. 0, or -1 on failure. */
int mpe_describe_head(const mpe_session* session, int head, mpe_head* description);

/* The values of a head after mpe_run(), as float whatever they are stored in. 0, or -1 on failure.
 */
int mpe_read_head(mpe_session* session, int head, float* values, size_t count);

/* Why the last call of this thread that failed did so: one sentence; "" if none has. */
const char* mpe_error(void);

#ifdef __cplusplus
}
#endif

#endif
