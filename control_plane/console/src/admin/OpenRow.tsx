/** A row that opens: its first cell is the button, what belongs to it stands below. */
import type { ReactNode } from "react";

interface Props {
  /** Names the row's button for screen readers. */
  readonly label: string;
  readonly open: boolean;
  readonly columns: number;
  readonly first: ReactNode;
  /** The other cells. */
  readonly children: ReactNode;
  readonly quiet?: boolean;
  readonly below: ReactNode;
  onToggle(): void;
}

export function OpenRow(props: Props) {
  const { open, columns, quiet = false, onToggle } = props;
  return (
    <>
      <tr className={`row${open ? " open" : ""}${quiet ? " quiet" : ""}`} onClick={onToggle}>
        <td>
          <button
            type="button"
            className="opener"
            aria-expanded={open}
            aria-label={props.label}
            onClick={(event) => {
              event.stopPropagation();
              onToggle();
            }}
          >
            {props.first}
          </button>
        </td>
        {props.children}
      </tr>
      {open && (
        <tr className="below">
          <td colSpan={columns}>{props.below}</td>
        </tr>
      )}
    </>
  );
}
