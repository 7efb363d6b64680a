/** The tool calls of a conversation while its items are built. */

import { addSeq, type PlanItem, type TimelineItem, type ToolItem } from './timeline-item.ts';

/** The tool calls of a conversation, with the calls of sub-agents. */
export class Calls {
  byId = new Map<string, ToolItem>();
  /** The running calls that have output. */
  withOutput = new Set<ToolItem>();
  #parents = new Map<ToolItem, ToolItem>();

  /** `parent`: if a sub-agent made the call, the call that started the sub-agent. */
  add(id: string, call: ToolItem, parent: ToolItem | undefined): void {
    this.byId.set(id, call);
    if (parent) this.#parents.set(call, parent);
  }

  addOutput(call: ToolItem): void {
    this.withOutput.add(call);
  }

  end(calls: Iterable<ToolItem>): void {
    for (const call of calls) {
      if (call.state === 'running') call.state = 'done';
      this.withOutput.delete(call);
    }
  }

  /** Marks the calls of which nobody knows whether they run. */
  forget(): void {
    for (const call of this.byId.values()) if (call.state === 'running') call.state = 'unknown';
  }

  /** Ends the calls with output of one sub-agent, or of the agent itself. */
  endWithOutput(parent: ToolItem | undefined): void {
    this.end([...this.withOutput].filter((call) => this.#parents.get(call) === parent));
  }

  /** Records that a message has changed a call, and so the call that started the sub-agent, whose item shows the changed call. */
  addSeq(call: ToolItem | undefined, seq: number): void {
    for (let changed = call; changed; changed = this.#parents.get(changed)) addSeq(changed, seq);
  }

  /** Marks a call as waiting or running if its sub-agent waits for the user or still works. */
  markCallsOfSubAgents(): void {
    // Backwards, because a call is added after the call that started its sub-agent.
    for (const [call, parent] of [...this.#parents].reverse()) {
      if (call.state === 'waiting') parent.state = 'waiting';
      else if (call.state === 'running' && parent.state === 'done') parent.state = 'running';
    }
  }
}

/** The todo lists of the current turn: a list that the agent writes again changes in place. */
export class TodoLists {
  #lists = new Map<TimelineItem[], ToolItem | PlanItem>();

  startTurn(): void {
    this.#lists.clear();
  }

  /** Returns the list among the items of the agent or of a sub-agent. */
  find<K extends 'tool' | 'plan'>(siblings: TimelineItem[], kind: K): Extract<ToolItem | PlanItem, { kind: K }> | undefined {
    const list = this.#lists.get(siblings);
    return list?.kind === kind ? (list as Extract<ToolItem | PlanItem, { kind: K }>) : undefined;
  }

  set(siblings: TimelineItem[], list: ToolItem | PlanItem): void {
    this.#lists.set(siblings, list);
  }
}
