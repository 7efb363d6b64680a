/** Runs the fetches of resources, one at a time for each resource, and collects the events that arrive meanwhile. */

import type { HubEvent } from '../api/types.ts';
import type { Outdated } from './outdated.ts';

/** `done`: resolves after the last fetch of the resource. */
interface RunningFetch {
  done: Promise<void>;
  isSent: boolean;
  /** The events that arrived since the request was sent. */
  events: HubEvent[];
}

export class Fetches {
  #running = new Map<string, RunningFetch>();
  /** The resources that were requested again during their fetch. */
  #requestedAgain = new Set<string>();
  #whenStarted: () => Promise<void> | null;
  #outdated: Outdated;

  /** @param whenStarted resolves when requests may be sent; null if they may be sent now */
  constructor(whenStarted: () => Promise<void> | null, outdated: Outdated) {
    this.#whenStarted = whenStarted;
    this.#outdated = outdated;
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
      if (active.isSent) this.#requestedAgain.add(resource);
      return active.done;
    }
    const started: RunningFetch = { done: Promise.resolve(), isSent: false, events: [] };
    this.#running.set(resource, started);
    const repeat = () => this.run(resource, fetchOnce, sessionId);
    const run = async () => {
      const whenStarted = this.#whenStarted();
      if (whenStarted !== null) await whenStarted;
      started.isSent = true;
      do {
        this.#requestedAgain.delete(resource);
        started.events.length = 0;
        try {
          await fetchOnce(started.events);
          this.#outdated.delete(resource);
        } catch (error) {
          this.#outdated.handleFailure(resource, error, repeat, sessionId);
        }
      } while (this.#requestedAgain.has(resource));
    };
    started.done = run().finally(() => this.#running.delete(resource));
    return started.done;
  }
}
