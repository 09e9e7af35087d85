// Frames of a webcam.

export class Camera {
  /** onEnd(): called when the camera ends by itself, as when it is unplugged. */
  constructor(onEnd) {
    this.onEnd = onEnd;
    this.video = document.createElement("video");
    this.video.muted = this.video.playsInline = true;
    this.stream = null;
    this.turn = 0; // of start and stop: a start that was overtaken must not take the camera
  }

  get isOn() {
    return this.stream !== null;
  }

  /** Ask for the camera; return whether it is on. Throws where there is none, or the user refuses. */
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
