/** A field to search with. */

import { Search as Glass } from 'lucide-preact';

interface Props {
  id?: string;
  label: string;
  placeholder: string;
  value: string;
  onChange: (value: string) => void;
}

/** The field. `label` names it for those who do not see what it stands beside. */
export function Search({ id, label, placeholder, value, onChange }: Props) {
  return (
    <div class="search">
      <Glass size={16} aria-hidden />
      <input
        {...(id === undefined ? {} : { id })}
        class="input"
        type="search"
        placeholder={placeholder}
        aria-label={label}
        value={value}
        onInput={({ currentTarget }) => onChange(currentTarget.value)}
      />
    </div>
  );
}
