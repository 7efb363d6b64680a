/** The settings of a session below the composer: the permission mode, the model, the effort, and the usage of the context. */

import { SlidersHorizontal } from 'lucide-preact';
import { Suspense } from 'preact/compat';
import { useState } from 'preact/hooks';
import type { Choice, Session } from '../api/types.ts';
import { isEffort } from '../content/agent-options.ts';
import { contextShare, describeUsage, describeUsageBriefly } from '../content/usage.ts';
import * as actions from '../state/actions.ts';
import { currentModel, modelsOf, modesOf, optionsOf } from '../state/catalog.ts';
import { hasKeyboard } from '../ui/device.ts';
import { tryOrToast } from '../ui/toasts.tsx';
import { confirmNeverAsking } from './confirm-never-asking.ts';
import { lazy } from './lazy.tsx';

const OptionsSheet = lazy(() => import('./options-sheet.tsx').then(({ OptionsSheet }) => OptionsSheet));
const UsageSheet = lazy(() => import('./usage-sheet.tsx').then(({ UsageSheet }) => UsageSheet));

export function ComposerSettings({ session }: { session: Session }) {
  const { id, metadata, permissionMode = 'default' } = session;
  const modes = modesOf(metadata);
  const options = optionsOf(metadata);
  const effort = options.find(isEffort);
  const otherOptions = options.filter((option) => option !== effort);
  const [isOpen, setIsOpen] = useState(false);
  const setMode = (mode: string) => {
    const apply = () => actions.setPermissionMode(id, mode);
    if (modes.find((choice) => choice.id === mode)?.neverAsks) confirmNeverAsking(apply);
    else void tryOrToast('Could not change the mode', apply);
  };
  return (
    <div class="composer-settings">
      <ChoiceSelect label="Permission mode" choices={modes} value={permissionMode} onChange={setMode} />
      <ChoiceSelect
        label="Model"
        choices={modelsOf(metadata)}
        value={currentModel(session)}
        onChange={(model) => void tryOrToast('Could not change the model', () => actions.setModel(id, model))}
      />
      {effort && (
        <ChoiceSelect
          label={effort.label}
          choices={effort.choices}
          value={String(effort.value)}
          onChange={(choiceId) => void tryOrToast(`Could not change ${effort.label}`, () => actions.setOption(id, effort.id, choiceId))}
        />
      )}
      {otherOptions.length > 0 && (
        <button
          type="button"
          class="button quiet icon more-options"
          aria-label="More options"
          title="More options"
          aria-haspopup="dialog"
          onClick={() => setIsOpen(true)}
        >
          <SlidersHorizontal size={16} />
        </button>
      )}
      {isOpen && (
        <Suspense fallback={null}>
          <OptionsSheet sessionId={id} options={otherOptions} onClose={() => setIsOpen(false)} />
        </Suspense>
      )}
      <Usage metadata={metadata} />
      <span class="muted small composer-hint">{hasKeyboard.value ? 'Enter to send, Shift+Enter for a new line' : ''}</span>
    </div>
  );
}

/** Shows the usage of the context, and opens the details. On a phone, only the share of the context fits. */
function Usage({ metadata }: { metadata: Session['metadata'] }) {
  const [isOpen, setIsOpen] = useState(false);
  const usage = metadata?.usage;
  const text = describeUsage(usage);
  const share = contextShare(usage);
  if (text === '' && !Array.isArray(metadata?.limits)) return null;
  return (
    <>
      <button type="button" class="usage" aria-haspopup="dialog" title="Context, cost and limits" onClick={() => setIsOpen(true)}>
        {share !== undefined && <Meter share={share} />}
        <span class="usage-long">{text || 'Limits'}</span>
        <span class="usage-short" aria-hidden>
          {describeUsageBriefly(usage) || 'Limits'}
        </span>
      </button>
      {isOpen && (
        <Suspense fallback={null}>
          <UsageSheet metadata={metadata} onClose={() => setIsOpen(false)} />
        </Suspense>
      )}
    </>
  );
}

/** A circle that is filled by the used share of the context. */
function Meter({ share }: { share: number }) {
  return (
    <svg class={share >= 0.8 ? 'meter high' : 'meter'} viewBox="0 0 20 20" width={16} height={16} aria-hidden>
      <circle cx={10} cy={10} r={8} />
      <circle cx={10} cy={10} r={8} pathLength={100} stroke-dasharray={`${share * 100} 100`} />
    </svg>
  );
}

interface ChoiceSelectProps {
  label: string;
  choices: Choice[];
  value: string;
  onChange: (id: string) => void;
}

/** A select that shows the old value until an event confirms the new value. Renders nothing without choices. */
function ChoiceSelect({ label, choices, value, onChange }: ChoiceSelectProps) {
  if (choices.length === 0) return null;
  const current = choices.find(({ id }) => id === value);
  return (
    <select
      aria-label={label}
      class={current?.neverAsks ? 'never-asks' : undefined}
      title={current?.description}
      value={value}
      onChange={({ currentTarget }) => {
        const chosenId = currentTarget.value;
        currentTarget.value = value;
        onChange(chosenId);
      }}
    >
      {!current && <option value={value}>{value}</option>}
      {choices.map(({ id, label: text, description, neverAsks }) => (
        <option key={id} value={id} title={description} class={neverAsks ? 'never-asks' : 'asks'}>
          {text}
        </option>
      ))}
    </select>
  );
}
