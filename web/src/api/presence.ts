/** Tells the hub whether somebody looks at the page: who does gets a toast, and all others a notification. */

import { HubError } from './errors.ts';

export type Visibility = 'visible' | 'hidden';

/** Who looks says so again after this time, in milliseconds: the hub takes long silence for a laptop that was closed. */
const RENEW_MS = 60_000;
/** The wait before what failed is tried again, in milliseconds; it doubles up to {@link RENEW_MS}. */
const FIRST_WAIT_MS = 1000;

/** What {@link Presence} needs from around it. */
export interface PresenceEnvironment {
  isVisible: () => boolean;
  /** Says it to the hub, also when the page is about to end; rejects when the hub did not take it. */
  tell: (subscriptionId: string, visibility: Visibility) => Promise<void>;
}

/** Keeps what the hub knows true, for the subscription there is at the time. */
export class Presence {
  #environment: PresenceEnvironment;
  #subscriptionId: string | null = null;
  /** What the hub was last told, by the subscription's address or by a request. */
  #told: Visibility | null = null;
  /** Counts what is said, so that the answer to an older word changes nothing. */
  #turn = 0;
  #failures = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(environment: PresenceEnvironment) {
    this.#environment = environment;
  }

  get #now(): Visibility {
    return this.#environment.isVisible() ? 'visible' : 'hidden';
  }

  /** What a subscription that is being made says in its address. The one before it is over. */
  atBeginning(): Visibility {
    this.stop();
    return (this.#told = this.#now);
  }

  /** The subscription has begun. */
  connected(subscriptionId: string): void {
    this.#subscriptionId = subscriptionId;
    if (this.#told === this.#now) this.#renewIn(RENEW_MS);
    else void this.#tell();
  }

  /** The page was shown or hidden. Between subscriptions there is nobody to tell: the next one says it itself. */
  changed(): void {
    this.#failures = 0;
    void this.#tell();
  }

  /** Says nothing more of this subscription. */
  stop(): void {
    this.#subscriptionId = null;
    this.#turn += 1;
    this.#failures = 0;
    clearTimeout(this.#timer);
  }

  async #tell(): Promise<void> {
    const id = this.#subscriptionId;
    if (id === null) return;
    clearTimeout(this.#timer);
    this.#turn += 1;
    const turn = this.#turn;
    const visibility = this.#now;
    try {
      await this.#environment.tell(id, visibility);
      if (turn !== this.#turn) return;
      this.#failures = 0;
      this.#told = visibility;
      this.#renewIn(RENEW_MS);
    } catch (error) {
      if (turn !== this.#turn) return;
      // A subscription that is gone has a successor, which says it at its beginning.
      if (error instanceof HubError && !error.isPassing) return this.stop();
      this.#told = null;
      this.#renewIn(Math.min(FIRST_WAIT_MS * 2 ** this.#failures, RENEW_MS));
      this.#failures += 1;
    }
  }

  #renewIn(ms: number): void {
    clearTimeout(this.#timer);
    // Who is known not to look has nothing to renew.
    this.#timer = this.#told === 'hidden' ? undefined : setTimeout(() => void this.#tell(), ms);
  }
}
