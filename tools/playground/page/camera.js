// Frames of a webcam.

export class Camera {
  /** onEnd(): called if the camera stops by itself, for example because it was unplugged. */
  constructor(onEnd) {
    this.onEnd = onEnd;
    this.video = document.createElement("video");
    this.video.muted = this.video.playsInline = true;
    this.stream = null;
    this.turn = 0; // number of calls of start and stop; a later call cancels a start that still waits
  }

  get isOn() {
    return this.stream !== null;
  }

  /** Ask for the camera. Return whether it is on. Throw an error if there is no camera or the user refuses. */
  async start() {
    const turn = ++this.turn;
    if (!navigator.mediaDevices) throw new Error("The browser does not allow this page to use a camera.");
    let stream = null;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: true });
      this.video.srcObject = stream;
      await this.video.play();
    } catch (error) {
      end(stream);
      if (turn !== this.turn) return false;
      throw new Error(`The camera cannot be used: ${error.message || error.name}`);
    }
    if (turn !== this.turn) {
      end(stream);
      return false;
    }
    this.stream = stream;
    for (const track of stream.getTracks()) track.onended = () => this.onEnd();
    return true;
  }

  stop() {
    this.turn++;
    end(this.stream);
    this.stream = null;
  }
}

function end(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}
