/** The options of a new session that seldom change: agent, model, and whether the agent asks. */

import { useEffect, useId, useRef } from 'preact/hooks';
import type { AgentOption } from '../content/agent-options.ts';
import type { StartField } from '../content/start-error.ts';
import { type AgentOffer, allowsNeverAsking } from '../state/catalog.ts';
import { confirmNeverAsking } from './confirm-never-asking.ts';
import { errorAttributes, FieldError } from './form-error.tsx';

interface Props {
  agents: AgentOffer[];
  agent: AgentOffer | undefined;
  model: string;
  /** The chosen values of the agent's options by id. */
  options: Record<string, string | boolean>;
  neverAsks: boolean;
  errorOf: (field: StartField) => string | null;
  onAgent: (id: string) => void;
  onModel: (model: string) => void;
  onOptions: (options: Record<string, string | boolean>) => void;
  onNeverAsks: (neverAsks: boolean) => void;
}

export function StartOptions({ agents, agent, model, options, neverAsks, errorOf, onAgent, onModel, onOptions, onNeverAsks }: Props) {
  const section = useRef<HTMLDetailsElement>(null);
  const hasAgent = agent !== undefined;
  useEffect(() => {
    // Without an agent, the form cannot be sent, and the section says why.
    if (!hasAgent && section.current) section.current.open = true;
  }, [hasAgent]);
  const modelLabel = model.trim() === '' ? '' : (agent?.models.find(({ id }) => id === model)?.label ?? model);
  const changeNeverAsks = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    const next = currentTarget.checked;
    // The box is checked only after the user has confirmed.
    currentTarget.checked = neverAsks;
    if (next) confirmNeverAsking(async () => onNeverAsks(next));
    else onNeverAsks(next);
  };
  return (
    <details class="more" ref={section}>
      <summary>
        <span>More</span>
        <span class="muted small ellipsis">
          {[agent?.label ?? 'No agent', modelLabel, ...describeOptions(agent, options)].filter(Boolean).join(' · ')}
          {neverAsks && <span class="never-asks"> · Approve everything</span>}
        </span>
      </summary>
      <div class="stack">
        <div class="field">
          <label for="agent">Agent</label>
          <select
            id="agent"
            class="input"
            value={agent?.id}
            disabled={!agent}
            {...errorAttributes('agent', errorOf('agent'))}
            onChange={({ currentTarget }) => onAgent(currentTarget.value)}
          >
            {!agent && <option>No agent is installed on this machine</option>}
            {agents.map(({ id, label }) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </select>
          <FieldError field="agent" text={errorOf('agent')} />
        </div>
        <div class="field">
          <label for="model">Model (optional)</label>
          <input
            id="model"
            class="input"
            value={model}
            placeholder="Agent default"
            list="models"
            autocomplete="off"
            autocapitalize="none"
            spellcheck={false}
            {...errorAttributes('model', errorOf('model'))}
            onInput={({ currentTarget }) => onModel(currentTarget.value)}
          />
          <datalist id="models">
            {agent?.models.map(({ id, label }) => (
              <option key={id} value={id}>
                {label}
              </option>
            ))}
          </datalist>
          <FieldError field="model" text={errorOf('model')} />
        </div>
        {agent?.options?.map((option) => (
          <OptionField
            key={`${agent.id} ${option.id}`}
            option={option}
            value={options[option.id]}
            onChange={(value) => onOptions(withValue(options, option.id, value))}
          />
        ))}
        {allowsNeverAsking.value && (
          <label class="check">
            <input type="checkbox" checked={neverAsks} onChange={changeNeverAsks} />
            <span class="never-asks">
              Approve everything
              <br />
              <span class="muted small">The agent never asks before it acts.</span>
            </span>
          </label>
        )}
      </div>
    </details>
  );
}

function withValue(options: Props['options'], id: string, value: string | boolean | undefined): Props['options'] {
  const { [id]: _, ...others } = options;
  return value === undefined ? others : { ...others, [id]: value };
}

/** Describes the chosen options, such as "Effort: High". */
const describeOptions = (agent: AgentOffer | undefined, options: Props['options']): string[] =>
  (agent?.options ?? []).flatMap(({ id, label, choices }) => {
    const value = options[id];
    if (value === undefined) return [];
    return typeof value === 'boolean'
      ? `${label}: ${value ? 'on' : 'off'}`
      : `${label}: ${choices.find((choice) => choice.id === value)?.label}`;
  });

interface OptionFieldProps {
  option: AgentOption;
  /** Undefined for the agent's default. */
  value: string | boolean | undefined;
  onChange: (value: string | boolean | undefined) => void;
}

/** The choices of a switch. */
const SWITCH = [
  { id: 'true', label: 'On' },
  { id: 'false', label: 'Off' },
];

function OptionField({ option: { label, description, choices }, value, onChange }: OptionFieldProps) {
  const id = useId();
  const isSwitch = choices.length === 0;
  return (
    <div class="field">
      <label for={id}>{label} (optional)</label>
      <select
        id={id}
        class="input"
        value={value === undefined ? '' : String(value)}
        aria-describedby={description ? `${id}-help` : undefined}
        onChange={({ currentTarget: { value: next } }) => onChange(next === '' ? undefined : isSwitch ? next === 'true' : next)}
      >
        <option value="">Agent default</option>
        {(isSwitch ? SWITCH : choices).map((choice) => (
          <option key={choice.id} value={choice.id}>
            {choice.label}
          </option>
        ))}
      </select>
      {description && (
        <p id={`${id}-help`} class="muted small">
          {description}
        </p>
      )}
    </div>
  );
}
