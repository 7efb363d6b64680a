/**
 * Runs the fetches of resources, one at a time for each resource, and collects the events that arrive meanwhile. If a fetch fails whose
 * resource the page shows, for example after a gap in the events, repeats the fetch until it succeeds, with a growing pause.
 */

import { HubError } from '../api/errors.ts';
import type { HubEvent } from '../api/types.ts';
import { openInboxItem, openSessionId, outdatedResources } from './store.ts';

const MIN_PAUSE_MS = 1000;
const MAX_PAUSE_MS = 30_000;

/** `setTimeout`; tests replace it. */
export type SetTimer = (callback: () => void, ms: number) => unknown;

interface RunningFetch {
  /** Resolves after the last fetch of the resource. */
  done: Promise<void>;
  isSent: boolean;
  /** Whether the resource was requested again since the request was sent. */
  isRequestedAgain: boolean;
  /** The events that arrived since the request was sent. */
  events: HubEvent[];
}

export class Fetches {
  #running = new Map<string, RunningFetch>();
  #whenStarted: () => Promise<void> | null;
  #setTimer: SetTimer;
  #isWaiting = false;
  /** The number of pauses since all resources were current. */
  #pauseCount = 0;

  /** @param whenStarted resolves when requests may be sent; null if they may be sent now */
  constructor(whenStarted: () => Promise<void> | null, setTimer: SetTimer) {
    this.#whenStarted = whenStarted;
    this.#setTimer = setTimer;
  }

  /** Adds an event to all fetches in flight: their responses may be older. */
  addEvent(event: HubEvent): void {
    for (const { events } of this.#running.values()) events.push(event);
  }

  /**
   * Fetches a resource. All calls before the request is sent share the fetch. All calls while the request is in flight share one further
   * fetch, which runs after the first.
   * @param fetchOnce throws if the fetch has failed, and the page shows the resource from an earlier fetch
   * @param sessionId of the session to which the resource belongs
   */
  run(resource: string, fetchOnce: (eventsDuringFetch: HubEvent[]) => Promise<void>, sessionId?: string): Promise<void> {
    const active = this.#running.get(resource);
    if (active) {
      active.isRequestedAgain = active.isSent;
      return active.done;
    }
    const started: RunningFetch = { done: Promise.resolve(), isSent: false, isRequestedAgain: false, events: [] };
    this.#running.set(resource, started);
    const run = async () => {
      const whenStarted = this.#whenStarted();
      if (whenStarted !== null) await whenStarted;
      started.isSent = true;
      do {
        started.isRequestedAgain = false;
        started.events.length = 0;
        try {
          await fetchOnce(started.events);
          this.markCurrent(resource);
        } catch (error) {
          this.handleFailure(resource, error, () => this.run(resource, fetchOnce, sessionId), sessionId);
        }
      } while (started.isRequestedAgain);
    };
    started.done = run().finally(() => this.#running.delete(resource));
    return started.done;
  }

  /**
   * To be called when the fetch of a resource that the page shows has failed. If the hub has refused the fetch for good, the fetch is not
   * repeated: an older hub may lack the route.
   */
  handleFailure(resource: string, error: unknown, repeat: () => Promise<void>, sessionId?: string): void {
    if (error instanceof HubError && !error.isTransient) {
      this.markCurrent(resource);
      return;
    }
    outdatedResources.value = new Map([...outdatedResources.value, [resource, { repeat, sessionId }]]);
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    const onTime = () => {
      this.#isWaiting = false;
      void this.repeat();
    };
    // Many pages lose the hub at the same time: they must not return at the same time.
    this.#setTimer(onTime, Math.min(MIN_PAUSE_MS * 2 ** this.#pauseCount, MAX_PAUSE_MS) * (0.75 + Math.random() / 2));
    this.#pauseCount += 1;
  }

  /** To be called when a resource was fetched, or the page no longer shows it. */
  markCurrent(resource: string): void {
    if (!outdatedResources.value.has(resource)) return;
    outdatedResources.value = new Map([...outdatedResources.value].filter(([other]) => other !== resource));
    if (outdatedResources.value.size === 0) this.#pauseCount = 0;
  }

  /** Repeats the failed fetches now. Sessions that are not shown are fetched again when they are opened. */
  async repeat(): Promise<void> {
    const shownIds = [undefined, openSessionId.value, openInboxItem.value?.sessionId];
    await Promise.all(
      [...outdatedResources.value].map(([resource, { repeat, sessionId }]) =>
        shownIds.includes(sessionId) ? repeat() : this.markCurrent(resource),
      ),
    );
  }
}
