// What an attribute can be.
export const TYPES = [["text", "Text"], ["number", "Number"], ["url", "URL"], ["boolean", "Yes or no"], ["text[]", "Texts"], ["url[]", "URLs"]] as const;
