/**
 * Work of the agent outside of a turn, such as the report on a background command that has ended, or a sub-agent that works on. While it
 * lasts, the session counts as working, its text is live, and an abort ends it.
 */

import * as messages from 'session-gateway-cli-kit/messages';
import { showsWork } from './translate/state-updates.mjs';

/**
 * If the agent does not report the end of its work, the work ends when the agent has sent nothing that {@link showsWork} for this long, and
 * no call runs.
 */
const SILENCE_MS = 10_000;

export class BackgroundWork {
  #timer = null;
  #dependencies;

  /**
   * @param {{silenceMs?: number, output: Pick<import('./output.mjs').Output, 'translator' | 'send' | 'sendMessage'>,
   *   liveText: Pick<import('./live-text.mjs').LiveTextReader, 'start' | 'stop'>, setThinking: (thinking: boolean) => void,
   *   publishUsage: () => void}} dependencies
   */
  constructor(dependencies) {
    this.#dependencies = dependencies;
  }

  get isRunning() {
    return this.#timer !== null;
  }

  get #translator() {
    return this.#dependencies.output.translator;
  }

  /**
   * To be called with each update outside of a turn, after it was translated.
   * @param {any} update
   */
  onUpdate(update) {
    // Claude Code starts a turn of its own for such work, and reports its end.
    const isEnd = update._meta?.['_claude/origin'] !== undefined;
    if (isEnd ? !this.isRunning : !this.#translator.isWorking || !showsWork(update)) return;
    if (isEnd) return this.end(this.#translator.endTurn('end_turn'));
    if (!this.isRunning) {
      this.#dependencies.setThinking(true);
      this.#dependencies.liveText.start(this.#translator);
    }
    this.#restartTimer();
  }

  /** Stops waiting for the end of the work, because a turn, an abort or the end of the process takes its place. @returns whether there was work */
  stopWaiting() {
    const { isRunning } = this;
    clearTimeout(this.#timer);
    this.#timer = null;
    return isRunning;
  }

  /** Ends the work. The session is ready again. @param {object[]} records the last records of the work */
  end(records) {
    const { output, liveText, setThinking, publishUsage } = this.#dependencies;
    this.stopWaiting();
    liveText.stop();
    output.send(records);
    setThinking(false);
    publishUsage();
    output.sendMessage(messages.ready()).catch(() => {});
  }

  #restartTimer() {
    clearTimeout(this.#timer);
    const onSilent = () => (this.#translator.openCalls.length > 0 ? this.#restartTimer() : this.end(this.#translator.endTurn('end_turn')));
    this.#timer = setTimeout(onSilent, this.#dependencies.silenceMs ?? SILENCE_MS);
    this.#timer.unref();
  }
}
