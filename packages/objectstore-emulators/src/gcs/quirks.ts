/** In what a store differs from the vendor's. May be changed while it serves. */
export interface GcsQuirks {
  /** The first chunk of an upload in chunks is taken for the whole object. */
  takesChunksForWhole?: boolean
  /** Preconditions are not heeded. */
  ignoresConditions?: boolean
  /** Headers that downloads lack, in lower case. */
  omits?: readonly string[]
  /** A range is answered with the one that begins so many bytes later. */
  shiftsRanges?: number
  /** Sizes in listings are written so, whatever they are. */
  listsSizesAs?: string
}
